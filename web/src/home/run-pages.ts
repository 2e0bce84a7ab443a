/** Merges pages of the list of runs. */

import type { Runs } from "@/lib/types";

/** Merges the newest page; its data replaces older data of the same runs. */
export function mergeNewest(listed: Runs | null, newest: Runs): Runs {
  return listed ? { runs: merged(newest, listed), next: listed.next } : newest;
}

/** Appends a page of older runs. */
export function appendOlder(listed: Runs | null, earlier: Runs): Runs {
  return listed ? { runs: merged(listed, earlier), next: earlier.next } : earlier;
}

function merged(first: Runs, second: Runs): Runs["runs"] {
  const there = new Set(first.runs.map((it) => it.id));
  return [...first.runs, ...second.runs.filter((it) => !there.has(it.id))];
}
