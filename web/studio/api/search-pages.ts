/** Search by text in lists that the server returns in pages. */

/** Number of objects that are requested at once. */
const PAGE = 200;

export interface Page {
  limit: number;
  offset: number;
}

export interface Found<T> {
  items: T[];
  /** Whether further objects may match. */
  hasMore: boolean;
}

/** Loads pages until `limit` objects match or the list ends. An object that moves to a later page is returned once. */
export async function searchPages<T>(
  load: (page: Page) => Promise<T[]>,
  idOf: (item: T) => string,
  matches: (item: T) => boolean,
  limit: number,
): Promise<Found<T>> {
  const found = new Map<string, T>();
  for (let offset = 0; ; offset += PAGE) {
    const items = await load({ limit: PAGE, offset });
    for (const item of items) {
      if (!matches(item) || found.has(idOf(item))) continue;
      if (found.size === limit) return { items: [...found.values()], hasMore: true };
      found.set(idOf(item), item);
    }
    if (items.length < PAGE) return { items: [...found.values()], hasMore: false };
  }
}

/** Returns whether a text contains all words of a query, ignoring case. */
export function hasWords(text: string, query: string): boolean {
  const lower = text.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}
