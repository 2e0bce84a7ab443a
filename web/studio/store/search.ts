/** Search in the store: by meaning if the store has an index, otherwise by words. */

import { ApiError } from "@/lib/http";
import { api } from "@studio/api/client";
import { hasWords } from "@studio/api/search-pages";
import type { StoreItem } from "@studio/api/types";

/** Number of items that are shown. */
export const LIMIT = 200;

/** Whether the store may have an index. False once the store has rejected a query because it has no index. */
let mayHaveIndex = true;

export async function searchItems(namespace: string[], query: string, signal: AbortSignal): Promise<StoreItem[]> {
  if (query.trim() !== "" && mayHaveIndex) {
    try {
      return await api.items({ namespace, query, limit: LIMIT }, signal);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 422)) throw error;
      mayHaveIndex = false;
    }
  }
  return withWords(await api.items({ namespace, query: "", limit: LIMIT }, signal), query);
}

/** Returns the items that contain all words of the query. */
export function withWords(items: readonly StoreItem[], query: string): StoreItem[] {
  return items.filter((it) => hasWords(`${it.key} ${JSON.stringify(it.value)}`, query));
}
