import { describe, expect, it } from "vitest";

import type { Config } from "@/lib/types";
import { emptyDebate, emptyView } from "@/run/view";

import { movesOf, stageState } from "./live";

const config = {
  analysts: [
    { id: "analyst_1", name: "One", moves: ["m1", "m2"] },
    { id: "analyst_2", name: "Two", moves: ["m3", "m4"] },
  ],
  rounds: 2,
  top_k: 3,
} as unknown as Config;

describe("the moves of a run", () => {
  it("are the planned ones until the analysts deliver", () => {
    const view = { ...emptyView(), layers: { "2": { status: "running" as const, artifacts: [] } } };
    expect(movesOf(config, view)).toEqual(["m1", "m2", "m3", "m4"]);
  });

  it("are the ones kept and added in a review", () => {
    const layer = { status: "done" as const, artifacts: ["m1.md", "m4.md", "m5.md"] };
    const debates = Object.fromEntries(
      ["m1", "m4", "m5"].map((it) => [it, { ...emptyDebate(it), status: "done" as const }]),
    );
    const view = { ...emptyView(), layers: { "2": layer }, debates };
    const moves = movesOf(config, view);
    expect(moves).toEqual(["m1", "m4", "m5"]);
    expect(stageState("sandbox", config, view, moves).note).toBe("3 of 3 debated");
  });
});
