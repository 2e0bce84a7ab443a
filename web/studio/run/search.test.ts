import { afterEach, expect, it, vi } from "vitest";

import { searchRuns } from "./search";

afterEach(() => vi.unstubAllGlobals());

it("finds runs that are not among the newest ones", async () => {
  const run = (index: number): object => {
    const kwargs = index === 287 ? { input: null, command: { resume: "More Jokes" } } : { input: { topic: "glass" } };
    return { run_id: `run-${index}`, status: "success", kwargs };
  };
  const runs = Array.from({ length: 300 }, (_, index) => run(index));
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("fetch", (path: string) => {
    const query = new URL(path, "http://localhost").searchParams;
    const offset = Number(query.get("offset"));
    return Promise.resolve(Response.json(runs.slice(offset, offset + Number(query.get("limit")))));
  });
  const search = (query: string): ReturnType<typeof searchRuns> =>
    searchRuns("t", query, 100, new AbortController().signal);
  expect(await search("jokes")).toEqual({ items: [runs[287]], hasMore: false });
  expect(await search("success run-299")).toEqual({ items: [runs[299]], hasMore: false });
  expect(await search("glass")).toMatchObject({ hasMore: true });
  expect(await search("error")).toEqual({ items: [], hasMore: false });
});
