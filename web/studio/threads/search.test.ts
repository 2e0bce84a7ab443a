import { afterEach, expect, it, vi } from "vitest";

import { matches, parseQuery, searchThreads } from "./search";

const ID = "0193c2a4-7d1e-7abc-8def-0123456789ab";
const thread = (values: object | null): never => ({ thread_id: "id-7", metadata: { by: "ann" }, values }) as never;

afterEach(() => vi.unstubAllGlobals());

/** Replaces the server with a fake that has these threads. Returns the bodies of the requests. */
function serve(threads: object[]): { metadata: object; ids?: string[]; status?: string; offset: number }[] {
  const bodies: ReturnType<typeof serve> = [];
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("fetch", (_: string, init: { body: string }) => {
    const body = JSON.parse(init.body);
    bodies.push(body);
    return Promise.resolve(Response.json(threads.slice(body.offset, body.offset + body.limit)));
  });
  return bodies;
}

const search = (query: string, limit = 50): ReturnType<typeof searchThreads> =>
  searchThreads({ graph: "review", status: "idle", query, limit }, new AbortController().signal);

it("reads words, ids and entries of the metadata", () => {
  expect(parseQuery("")).toEqual({ id: null, metadata: {}, words: "" });
  expect(parseQuery(` ${ID} `)).toEqual({ id: ID, metadata: {}, words: "" });
  expect(parseQuery("green user=ann glass n=3 old=true")).toEqual({
    id: null,
    metadata: { user: "ann", n: 3, old: true },
    words: "green glass",
  });
  // The beginning of an id is a word.
  expect(parseQuery(ID.slice(0, 13)).words).toBe(ID.slice(0, 13));
});

it("compares words with the state, the metadata and the id of a thread", () => {
  const one = thread({ topic: "Green glass" });
  expect(["", "GLASS green", "id-7", "ann"].map((it) => matches(one, it))).toEqual([true, true, true, true]);
  expect(matches(one, "green paper")).toBe(false);
});

it("finds threads that are not among the newest ones", async () => {
  const threads = Array.from({ length: 300 }, (_, index) => ({ thread_id: `id-${index}`, metadata: {}, values: null }));
  const bodies = serve(threads);
  const found = await search("id-287");
  expect(found).toEqual({ items: [threads[287]], hasMore: false });
  expect(bodies.map((it) => it.offset)).toEqual([0, 200]);
});

it("lets the server compare ids, metadata and statuses", async () => {
  const bodies = serve([]);
  await search(`${ID} user=ann`);
  expect(bodies).toMatchObject([{ ids: [ID], metadata: { graph_id: "review", user: "ann" }, status: "idle" }]);
});

it("loads only the requested threads without words", async () => {
  const bodies = serve(Array.from({ length: 80 }, (_, index) => ({ thread_id: `id-${index}` })));
  expect(await search("", 50)).toMatchObject({ hasMore: true });
  expect(await search("", 100)).toMatchObject({ hasMore: false });
  expect(bodies).toHaveLength(2);
});
