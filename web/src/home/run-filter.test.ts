import { expect, test } from "vitest";

import type { RunSummary } from "@/lib/types";

import { matches, secondsOf } from "./run-filter";

const run = {
  id: "nvda-1",
  ticker: "NVDA",
  status: "complete",
  created_at: "2026-11-17T05:00:00Z",
  ended_at: "2026-11-17T05:01:30Z",
  recommended: [{ move_id: "m1", title: "Lock in supply", score: 88 }],
} as RunSummary;

test("all words of the filter must occur", () => {
  expect(["", "nvda", "NVDA complete", "supply lock"].every((it) => matches(run, it))).toBe(true);
  expect(["aapl", "nvda failed"].some((it) => matches(run, it))).toBe(false);
});

test("the duration is known when the run has ended", () => {
  expect(secondsOf(run)).toBe(90);
  expect(secondsOf({ ...run, ended_at: null })).toBeNull();
});
