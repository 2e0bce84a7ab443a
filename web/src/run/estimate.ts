/** How far a run is and how long it still takes. */

export interface Sample {
  /** When it was taken, in milliseconds. */
  at: number;
  /** Calls that were answered by then. */
  calls: number;
}

/** So far back the pace is measured: long enough to be calm, short enough to follow a change. */
const WINDOW = 60_000;
const LEAST = 3_000;

/** Adds a sample and forgets those that are too old to matter. */
export function remember(samples: readonly Sample[], sample: Sample): Sample[] {
  const last = samples.at(-1);
  const kept = last && sample.calls < last.calls ? [] : samples;
  return [...kept.filter((it) => sample.at - it.at <= WINDOW), sample];
}

/** Seconds that are left, or null while the pace is not known. */
export function secondsLeft(samples: readonly Sample[], planned: number): number | null {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return null;
  if (last.calls >= planned) return 0;
  const [passed, done] = [last.at - first.at, last.calls - first.calls];
  if (passed < LEAST || done <= 0) return null;
  return ((planned - last.calls) * passed) / done / 1000;
}

/** The share that is done, from 0 to 1. More calls than planned, by answers asked for again, do not exceed it. */
export function share(calls: number, planned: number): number {
  return planned > 0 ? Math.min(1, calls / planned) : 0;
}
