/** Search in all threads of a graph. */

import { type Found, hasWords, searchPages } from "@studio/api/search-pages";
import { api } from "@studio/api/client";
import type { JsonObject, Thread, ThreadStatus } from "@studio/api/types";

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ENTRY = /^([\w.-]+)=(.+)$/;

/** Conditions of a search. */
export interface ThreadQuery {
  /** Id of the only thread. */
  id: string | null;
  /** Entries that the metadata of the threads must contain. */
  metadata: JsonObject;
  /** Words that the id, the state or the metadata of the threads must contain. */
  words: string;
}

/** Reads a query: words, a complete id, and entries of the metadata such as `user=ann`. */
export function parseQuery(query: string): ThreadQuery {
  const parsed: ThreadQuery = { id: null, metadata: {}, words: "" };
  const words: string[] = [];
  for (const word of query.trim().split(/\s+/)) {
    const [, name, value] = ENTRY.exec(word) ?? [];
    if (ID.test(word)) parsed.id = word;
    else if (name !== undefined && value !== undefined) parsed.metadata[name] = scalar(value);
    else words.push(word);
  }
  parsed.words = words.join(" ");
  return parsed;
}

/** Returns the number or the boolean that a text represents, or the text. */
function scalar(text: string): string | number | boolean {
  return /^(true|false|-?\d+(\.\d+)?)$/.test(text) ? (JSON.parse(text) as number | boolean) : text;
}

/** Returns whether the id, the state or the metadata of a thread contains all words. */
export function matches(thread: Thread, words: string): boolean {
  return hasWords(`${thread.thread_id} ${JSON.stringify(thread.values)} ${JSON.stringify(thread.metadata)}`, words);
}

/** Searches for threads, newest first. The server compares ids, metadata and statuses; this page compares words. */
export async function searchThreads(
  search: { graph: string; status: ThreadStatus | null; query: string; limit: number },
  signal: AbortSignal,
): Promise<Found<Thread>> {
  const { graph, status, limit } = search;
  const { id, metadata, words } = parseQuery(search.query);
  const filter = { graph, status, id, metadata };
  if (words === "") {
    const items = await api.threads(filter, { limit, offset: 0 }, signal);
    return { items, hasMore: items.length === limit };
  }
  return searchPages(
    (page) => api.threads(filter, page, signal),
    (it) => it.thread_id,
    (it) => matches(it, words),
    limit,
  );
}
