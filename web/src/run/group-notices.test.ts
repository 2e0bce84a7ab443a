import { expect, test } from "vitest";

import { groupNotices } from "./group-notices";
import type { Notice } from "./view";

const skipped = (seq: number, move: string, why: string): Notice => ({
  seq,
  kind: "skipped",
  move,
  text: `${move} has no score: ${why}`,
});
const texts = (...notices: Notice[]): string[] => groupNotices(notices).map((it) => it.text);

test("moves without a score for the same reason share a notice", () => {
  const notices = [skipped(1, "m1", "budget"), skipped(2, "m2", "budget"), skipped(3, "m3", "crash")];
  expect(texts(...notices)).toEqual(["m1, m2 have no score: budget", "m3 has no score: crash"]);
});

test("debates with the same weaker isolation share a notice", () => {
  const degraded = (seq: number, move: string, backend: string): Notice => ({
    seq,
    kind: "degraded",
    move,
    text: `${move} runs with ${backend}.`,
  });
  const notices = [degraded(1, "m1", "jail"), degraded(2, "m2", "in-process"), degraded(3, "m4", "jail")];
  expect(texts(...notices)).toEqual(["m1, m4 run with jail.", "m2 runs with in-process."]);
});

test("repeated warnings are counted, and the last budget warning is kept", () => {
  const failed = (seq: number): Notice => ({ seq, kind: "failed", text: "timeout" });
  const budget = (seq: number, text: string): Notice => ({ seq, kind: "budget", text });
  expect(texts(failed(1), failed(2), budget(3, "80 %"), budget(4, "90 %"))).toEqual(["timeout (2 times)", "90 %"]);
});
