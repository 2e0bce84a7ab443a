import { describe, expect, it } from "vitest";

import type { RunStatus, RunSummary, Runs } from "@/lib/types";

import { appendOlder, mergeNewest } from "./run-pages";

const run = (id: string, status: RunStatus = "complete"): RunSummary => ({
  id,
  ticker: id.toUpperCase(),
  status,
  created_at: "",
  updated_at: "",
  ended_at: null,
  error: null,
  recommended: [],
  tokens: null,
  dollars: null,
  from: null,
});

const page = (next: string | null, ...runs: RunSummary[]): Runs => ({ runs, next });

const ids = (it: Runs): string[] => it.runs.map((one) => one.id);

describe("the list of runs", () => {
  it("keeps older pages when the newest page is reloaded", () => {
    const first = mergeNewest(null, page("c", run("d", "running"), run("c")));
    const both = appendOlder(first, page(null, run("b"), run("a")));
    const again = mergeNewest(both, page("d", run("e"), run("d")));
    expect(ids(again)).toEqual(["e", "d", "c", "b", "a"]);
    expect(again.runs[1]!.status).toBe("complete");
    expect(again.next).toBeNull();
  });

  it("keeps the cursor of the next page when newer runs appear", () => {
    const first = mergeNewest(null, page("c", run("d"), run("c")));
    expect(mergeNewest(first, page("e", run("f"), run("e"))).next).toBe("c");
  });
});
