/** Search in all runs of a thread. */

import { type Found, hasWords, searchPages } from "@studio/api/search-pages";
import { api } from "@studio/api/client";
import type { Run } from "@studio/api/types";

/** Searches for runs whose status, id or input contains all words of the query, newest first. */
export function searchRuns(thread: string, query: string, limit: number, signal: AbortSignal): Promise<Found<Run>> {
  return searchPages(
    (page) => api.runs(thread, page, signal),
    (it) => it.run_id,
    (it) => matches(it, query),
    limit,
  );
}

function matches({ run_id, status, kwargs }: Run, query: string): boolean {
  return hasWords(`${status} ${run_id} ${JSON.stringify(kwargs.input ?? kwargs.command)}`, query);
}
