import { expect, test } from "vitest";

import type { Report } from "@/lib/report";
import type { Run } from "@/lib/types";

import { fold } from "./fold";
import { timelineRows } from "./timeline";
import { emptyView } from "./view";

const run = {
  titles: { m1: "Sell it" },
  config: { synthesizers: [], inferences: [], analysts: [{ id: "analyst_1", name: "Steward", moves: ["m1"] }] },
} as unknown as Run;

const view = fold(emptyView(), [
  { seq: 1, at: "2026-11-17T05:00:00.000Z", type: "agent_start", layer: 2, agent_id: "analyst_1", persona: "" },
  { seq: 2, at: "2026-11-17T05:00:02.500Z", type: "agent_complete", layer: 2, agent_id: "analyst_1", outputs: [] },
  {
    seq: 3,
    at: "2026-11-17T05:00:03.000Z",
    type: "sandbox_ready",
    move: "m1",
    title: "",
    backend: "x",
    isolation: "vm",
  },
]);

test("agents and debates are listed with their times", () => {
  const rows = timelineRows(run, view, ["m1", "m2"], null);
  expect(rows.map((it) => [it.id, it.name, it.status])).toEqual([
    ["analyst_1", "Steward", "done"],
    ["m1", "Sell it", "running"],
  ]);
  expect(rows[0]!.ended! - rows[0]!.started).toBe(2500);
  expect(rows[1]!.ended).toBeNull();
});

test("spending is assigned by agent and by move", () => {
  const spending = (name: string, calls: number) => ({ name, calls, input_tokens: 1, output_tokens: 1, dollars: 0 });
  const outcome = { spending: [spending("analyst_1", 2), spending("m1", 9)], spending_by_move: [spending("m1", 61)] };
  const rows = timelineRows(run, view, ["m1"], { outcome } as unknown as Report);
  expect(rows.map((it) => it.spending?.calls)).toEqual([2, 61]);
});
