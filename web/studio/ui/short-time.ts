const time = new Intl.DateTimeFormat("en", { timeStyle: "short" });
const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });

/** Formats a moment: the time if it is today, otherwise the day. */
export function shortTime(rfc3339: string, now: Date = new Date()): string {
  const date = new Date(rfc3339);
  if (Number.isNaN(date.getTime())) return rfc3339;
  return date.toDateString() === now.toDateString() ? time.format(date) : day.format(date);
}
