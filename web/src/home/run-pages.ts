/** The runs that are listed, over many answers of the server. */

import type { Runs } from "@/lib/types";

/** Takes in the newest runs: what they say counts, and those that were listed before stay. */
export function refreshed(listed: Runs | null, newest: Runs): Runs {
  return listed ? { runs: merged(newest, listed), next: listed.next } : newest;
}

/** Takes in runs that were made before all that are listed. */
export function extended(listed: Runs | null, earlier: Runs): Runs {
  return listed ? { runs: merged(listed, earlier), next: earlier.next } : earlier;
}

function merged(first: Runs, second: Runs): Runs["runs"] {
  const there = new Set(first.runs.map((it) => it.id));
  return [...first.runs, ...second.runs.filter((it) => !there.has(it.id))];
}
