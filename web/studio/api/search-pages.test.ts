import { expect, it } from "vitest";

import { type Page, hasWords, searchPages } from "./search-pages";

const list = Array.from({ length: 450 }, (_, index) => `item-${index}`);
const load = ({ limit, offset }: Page): Promise<string[]> => Promise.resolve(list.slice(offset, offset + limit));
const search = (query: string, limit: number): ReturnType<typeof searchPages<string>> =>
  searchPages(
    load,
    (it) => it,
    (it) => it.includes(query),
    limit,
  );

it("finds objects on every page", async () => {
  expect(await search("item-449", 50)).toEqual({ items: ["item-449"], hasMore: false });
  expect(await search("item-0", 50)).toEqual({ items: ["item-0"], hasMore: false });
  expect(await search("other", 50)).toEqual({ items: [], hasMore: false });
});

it("stops when enough objects match", async () => {
  const { items, hasMore } = await search("9", 3);
  expect(items).toEqual(["item-9", "item-19", "item-29"]);
  expect(hasMore).toBe(true);
  const all = await search("49", 5);
  expect(all).toEqual({ items: ["item-49", "item-149", "item-249", "item-349", "item-449"], hasMore: false });
});

it("returns an object once that moves to the next page in the meantime", async () => {
  const moved = [list.slice(0, 200), ["item-199", "item-200"]];
  const pages = (): Promise<string[]> => Promise.resolve(moved.shift() ?? []);
  const found = await searchPages(
    pages,
    (it) => it,
    () => true,
    1000,
  );
  expect(found.items).toEqual(list.slice(0, 201));
});

it("compares words, ignoring case", () => {
  expect(["", "GLASS green", "een"].map((it) => hasWords("Green glass", it))).toEqual([true, true, true]);
  expect(hasWords("Green glass", "green paper")).toBe(false);
});
