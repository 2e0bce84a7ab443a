import { expect, test } from "vitest";

import { counted, statementDollars } from "./format";

test("nouns and verbs agree with their numbers", () => {
  expect([0, 1, 2].map((it) => counted(it, "round"))).toEqual(["0 rounds", "1 round", "2 rounds"]);
  const proposals = [1, 2].map((it) => counted(it, "analyst", ["proposes", "propose"]));
  expect(proposals).toEqual(["1 analyst proposes", "2 analysts propose"]);
});

test("dollars of a statement have the same format as in the reports", () => {
  const cases: [number, string][] = [
    [0, "$0m"],
    [45_000, "$45,000"],
    [-999_999, "-$999,999"],
    [2_000_000, "$2m"],
    [-7_250_000, "-$7.3m"],
    [99_960_000, "$100.0m"],
    [123_456_789, "$123m"],
    [12_345_000_000, "$12,345m"],
  ];
  for (const [value, text] of cases) expect(statementDollars(value)).toBe(text);
});
