/** Formatting of numbers, times and names. */

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value: number): string => whole.format(value);

/**
 * Formats a number with a noun and, if given, a verb: `1 move is`, `3 moves are`. The plural of the noun must end in
 * “s”; the verb is passed in both forms.
 */
export function counted(value: number, noun: string, [singular, plural]: [string, string] | [] = []): string {
  const verb = value === 1 ? singular : plural;
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}${verb === undefined ? "" : ` ${verb}`}`;
}

export const short = (value: number): string => compact.format(value);

/** Formats an amount of money; an unknown amount is not shown as zero. */
export function dollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return "unknown";
  return value > 0 && value < 0.01 ? "< $0.01" : `$${value.toFixed(2)}`;
}

/** Formats dollars of a financial statement like the reports do: `$12,345m`, `-$7.3m`, `$45,000`. */
export function statementDollars(value: number): string {
  const [sign, size] = [value < 0 ? "-" : "", Math.round(Math.abs(value))];
  if (size > 0 && size < 1e6) return `${sign}$${count(size)}`;
  if (size % 1e6 === 0 || size >= 1e8) return `${sign}$${count(Math.round(size / 1e6))}m`;
  return `${sign}$${(Math.round(size / 1e5) / 10).toFixed(1)}m`;
}

/** Formats a duration in its two largest units. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

/** Formats a measured time: milliseconds below one second, tenths of a second below a minute. */
export function milliseconds(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms / 1000);
}

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

const moment = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

export function when(rfc3339: string): string {
  const date = new Date(rfc3339);
  return Number.isNaN(date.getTime()) ? rfc3339 : moment.format(date);
}

/** Formats an identifier: `risk_adjusted_return` becomes “risk adjusted return”. */
export const words = (name: string): string => name.replaceAll("_", " ");

export const percent = (part: number): string => `${Math.round(part * 100)} %`;
