import { describe, expect, it } from "vitest";

import type { RunStatus, RunSummary, Runs } from "@/lib/types";

import { extended, refreshed } from "./listed";

const run = (id: string, status: RunStatus = "complete"): RunSummary => ({
  id,
  ticker: id.toUpperCase(),
  status,
  created_at: "",
  updated_at: "",
  ended_at: null,
  error: null,
  recommended: [],
  from: null,
});

const page = (next: string | null, ...runs: RunSummary[]): Runs => ({ runs, next });

const ids = (it: Runs): string[] => it.runs.map((one) => one.id);

describe("the list of runs", () => {
  it("keeps earlier pages when the newest runs are asked for again", () => {
    const first = refreshed(null, page("c", run("d", "running"), run("c")));
    const both = extended(first, page(null, run("b"), run("a")));
    const again = refreshed(both, page("d", run("e"), run("d")));
    expect(ids(again)).toEqual(["e", "d", "c", "b", "a"]);
    expect(again.runs[1]!.status).toBe("complete");
    expect(again.next).toBeNull();
  });

  it("knows what to ask for next although newer runs came", () => {
    const first = refreshed(null, page("c", run("d"), run("c")));
    expect(refreshed(first, page("e", run("f"), run("e"))).next).toBe("c");
  });
});
