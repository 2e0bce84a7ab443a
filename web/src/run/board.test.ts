import { describe, expect, it } from "vitest";

import { board, makerTotals } from "./board";
import { type DebateView, emptyDebate } from "./view";

const scored = (move: string, ...totals: number[]): DebateView => ({
  ...emptyDebate(move),
  status: "done",
  score: totals.reduce((a, b) => a + b, 0),
  breakdown: Object.fromEntries(totals.map((it, idx) => [`D${idx + 1}`, { reasoning: "", impact: it }])),
});

const order = (debates: DebateView[]): string[] => board(debates, ["impact"]).map((it) => it.debate.move);

describe("the leaderboard", () => {
  it("sums only the metrics", () => {
    const debate = { ...scored("m1", 7), breakdown: { D1: { reasoning: "9", impact: 7, feasibility: 2, other: 99 } } };
    expect(makerTotals(debate.breakdown, ["impact", "feasibility"])).toEqual({ D1: 9 });
  });

  it("ranks by total, then lowest total, then spread, then number", () => {
    expect(order([scored("m1", 5, 5), scored("m2", 9, 9)])).toEqual(["m2", "m1"]);
    expect(order([scored("m1", 3, 7, 8), scored("m2", 4, 4, 10)])).toEqual(["m2", "m1"]);
    expect(order([scored("m1", 3, 5, 7), scored("m2", 3, 6, 6)])).toEqual(["m2", "m1"]);
    expect(order([scored("m10", 5, 5), scored("m2", 5, 5)])).toEqual(["m2", "m10"]);
  });

  it("lists unscored moves last and without a rank", () => {
    const running: DebateView = { ...emptyDebate("m3"), status: "running", round: 2 };
    const ahead: DebateView = { ...emptyDebate("m4"), status: "running", round: 7 };
    const failed: DebateView = { ...emptyDebate("m1"), status: "failed" };
    const places = board([failed, emptyDebate("m2"), running, ahead, scored("m9", 1)], ["impact"]);
    expect(places.map((it) => [it.debate.move, it.rank])).toEqual([
      ["m9", 1],
      ["m4", null],
      ["m3", null],
      ["m2", null],
      ["m1", null],
    ]);
  });
});
