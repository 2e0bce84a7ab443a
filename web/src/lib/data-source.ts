import type { Setup } from "./types";

/** Returns whether new runs of a company use generated data. */
export function isSynthetic(setup: Pick<Setup, "data" | "included_tickers">, ticker: string): boolean {
  return setup.data === "synthetic" || (setup.data === "included" && !setup.included_tickers.includes(ticker));
}
