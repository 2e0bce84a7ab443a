import { expect, test } from "vitest";

import type { Report } from "@/lib/report";
import type { Config } from "@/lib/types";

import { forkEstimate } from "./fork-estimate";

const spent = (name: string, tokens: number, dollars: number | null = tokens / 100) => ({
  name,
  calls: 1,
  input_tokens: tokens,
  output_tokens: 0,
  dollars,
});
const report = {
  outcome: {
    spending: [spent("synth", 5), spent("infer", 10), spent("analyst_1", 20), spent("critic", 200)],
    spending_by_move: [spent("m1", 100), spent("m2", 100)],
    spending_by_round: [spent("1", 50), spent("2", 150)],
  },
} as unknown as Report;
const config = { synthesizers: [{ id: "synth" }], inferences: [{ id: "infer" }] } as unknown as Config;

const tokens = (place: string, round = 1, only = false): number =>
  forkEstimate(report, config, { place, round, only }).input_tokens;

test("a fork at a layer repeats that layer and everything after it", () => {
  expect([tokens("layer_0"), tokens("layer_1"), tokens("layer_2")]).toEqual([235, 230, 220]);
});

test("a fork at a move repeats its debate and, unless limited, the later ones", () => {
  expect([tokens("m1"), tokens("m1", 1, true), tokens("m2")]).toEqual([200, 100, 100]);
});

test("a fork at a round keeps the share of the earlier rounds", () => {
  expect(tokens("m1", 2, true)).toBe(75);
});

test("an unknown price makes the cost unknown", () => {
  const unpriced = { outcome: { ...report.outcome, spending: [spent("critic", 9, null)] } } as Report;
  expect(forkEstimate(unpriced, config, { place: "layer_2", round: 1, only: false }).dollars).toBeNull();
});
