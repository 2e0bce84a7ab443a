/** Filters the list of runs. */

import type { RunSummary } from "@/lib/types";

/** Returns whether all words of the text occur in the ticker, id, status or best move of a run. */
export function matches(run: RunSummary, text: string): boolean {
  const found = [run.ticker, run.id, run.status, run.recommended[0]?.title ?? ""].join(" ").toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => found.includes(word));
}

/** Returns the time from the start to the end of a run in seconds, or null while it is active. */
export function secondsOf(run: RunSummary): number | null {
  return run.ended_at === null ? null : (Date.parse(run.ended_at) - Date.parse(run.created_at)) / 1000;
}
