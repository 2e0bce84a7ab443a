/** Progress and remaining time of a run. */

export interface Sample {
  /** Time of the sample in milliseconds. */
  at: number;
  /** Number of completed calls. */
  calls: number;
}

/** Window over which the rate is measured: long enough to be stable, short enough to follow changes. */
const WINDOW_MS = 60_000;
const MIN_SPAN_MS = 3_000;

/** Adds a sample and drops those outside the window. */
export function addSample(samples: readonly Sample[], sample: Sample): Sample[] {
  const last = samples.at(-1);
  const kept = last && sample.calls < last.calls ? [] : samples;
  return [...kept.filter((it) => sample.at - it.at <= WINDOW_MS), sample];
}

/** Returns the remaining seconds, or null while the rate is unknown. */
export function secondsLeft(samples: readonly Sample[], planned: number): number | null {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return null;
  if (last.calls >= planned) return 0;
  const [passed, done] = [last.at - first.at, last.calls - first.calls];
  if (passed < MIN_SPAN_MS || done <= 0) return null;
  return ((planned - last.calls) * passed) / done / 1000;
}

/** Returns the fraction done, from 0 to 1. Because of retries, there can be more calls than planned. */
export function fractionDone(calls: number, planned: number): number {
  return planned > 0 ? Math.min(1, calls / planned) : 0;
}
