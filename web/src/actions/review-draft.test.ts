import { describe, expect, it } from "vitest";

import type { Config, Move } from "@/lib/types";

import { type ReviewDraft, edited, movesToDebate, missingParts, newMove, removed, toggled } from "./review-draft";

const config = { analysts: [{ id: "analyst_1", name: "One", moves: ["m1", "m2", "m3"] }] } as unknown as Config;
const move = (id: string): Move => ({
  ...newMove({ moves: [], dropped: [] }, config, "NVDA"),
  move_id: id,
  title: `Title of ${id}`,
  thesis: "Because.",
  steps: [{ action: "Do it", owner: "CFO", timeframe: "Q1" }],
});
const draft: ReviewDraft = { moves: [move("m1"), move("m2")], dropped: [] };
const ids = (moves: Move[]): string[] => moves.map((it) => it.move_id);

describe("a review of moves", () => {
  it("drops and restores moves", () => {
    const less = toggled(draft, "m1");
    expect(ids(movesToDebate(less))).toEqual(["m2"]);
    expect(ids(less.moves)).toEqual(["m1", "m2"]);
    expect(toggled(less, "m1")).toEqual(draft);
  });

  it("assigns a new move an unused number, skipping numbers reserved for analysts", () => {
    const added = newMove(draft, config, "NVDA");
    expect(added).toMatchObject({ move_id: "m4", ticker: "NVDA" });
    const more = { ...draft, moves: [...draft.moves, added] };
    expect(newMove(more, config, "NVDA").move_id).toBe("m5");
    expect(removed(toggled(more, "m4"), "m4")).toEqual(draft);
  });

  it("omits empty lines and empty steps", () => {
    const messy = {
      ...move("m1"),
      citations: [" F1-01 ", ""],
      falsifiers: ["", "It rains."],
      steps: [{ action: "", owner: " ", timeframe: "" }, ...move("m1").steps],
    };
    expect(movesToDebate(edited(draft, messy))[0]).toEqual({
      ...messy,
      citations: ["F1-01"],
      falsifiers: ["It rains."],
      steps: move("m1").steps,
    });
  });

  it("reports missing required parts", () => {
    expect(missingParts(move("m1"))).toEqual([]);
    expect(missingParts({ ...move("m1"), title: " ", steps: [{ action: "", owner: "CFO", timeframe: "" }] })).toEqual([
      "a title",
      "the action of step 1",
    ]);
  });
});
