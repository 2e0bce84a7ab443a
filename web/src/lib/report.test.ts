import { expect, it } from "vitest";

import { type Ranked, isOpen } from "./report";

const ranked = (...marks: string[]): Ranked => ({
  rank: 1,
  move_id: "m1",
  total_score: 50,
  lowest: 16,
  spread: 2,
  marks,
});

it("detects results that resuming could improve", () => {
  const whole = { recommended: [ranked("not_isolated")], other: [], unscored: [] };
  expect(isOpen({ ranking: whole })).toBe(false);
  expect(isOpen({ ranking: { ...whole, unscored: [{ move_id: "m2", reason: "the budget is spent" }] } })).toBe(true);
  expect(isOpen({ ranking: { ...whole, other: [ranked("incomplete")] } })).toBe(true);
});
