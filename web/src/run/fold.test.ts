import { describe, expect, it } from "vitest";

import type { RunEvent } from "@/lib/events";

import { fold, fillGap } from "./fold";
import { markStopped, emptyView } from "./view";

const texts = (text: string): Record<string, string> => ({ i1: `${text} 1`, i2: `${text} 2`, i3: `${text} 3` });

const EVENTS: RunEvent[] = [
  { seq: 1, type: "layer_start", layer: 0 },
  { seq: 2, type: "agent_start", layer: 0, agent_id: "writer", persona: "Writer" },
  { seq: 3, type: "agent_complete", layer: 0, agent_id: "writer", outputs: ["financial.md"] },
  { seq: 4, type: "layer_complete", layer: 0, artifacts: ["financial.md"] },
  { seq: 5, type: "layer_start", layer: "sandbox" },
  { seq: 6, type: "sandbox_degraded", backend: "in-process", isolation: "off", reason: "isolation is switched off" },
  { seq: 7, type: "sandbox_ready", move: "m1", title: "Sell it", backend: "in-process", isolation: "off" },
  { seq: 8, type: "sandbox_round", move: "m1", round: 1, status: "critic_responding" },
  { seq: 9, type: "sandbox_round", move: "m1", round: 1, status: "critic_responded", texts: texts("no") },
  { seq: 10, type: "sandbox_round", move: "m1", round: 1, status: "dm_responded", texts: texts("yes") },
  { seq: 11, type: "sandbox_scored", move: "m1", score: 54, breakdown: { D1: { reasoning: "so", impact: 4 } } },
  { seq: 12, type: "sandbox_skipped", move: "m2", reason: "the model refused" },
  { seq: 13, type: "pipeline_complete", recommended: ["m1"], other: [] },
];

const whole = fold(emptyView(), EVENTS);

it("shows nothing as running after the run has stopped", () => {
  const stopped = fold(emptyView(), EVENTS.slice(0, 10));
  expect(stopped.debates["m1"]?.status).toBe("running");
  expect(markStopped(stopped).debates["m1"]?.status).toBe("idle");
  expect(markStopped(stopped).layers["sandbox"]?.status).toBe("idle");
  expect(markStopped(stopped).layers["0"]?.status).toBe("done");
  expect(markStopped({ ...stopped, error: "no budget" }).layers["sandbox"]?.status).toBe("failed");
});

it("shows a layer with failures as failed", () => {
  const layer = fold(emptyView(), [
    { seq: 1, type: "layer_complete", layer: 2, status: "incomplete", artifacts: ["m1.md"] },
  ]).layers["2"];
  expect(layer).toEqual({ status: "failed", artifacts: ["m1.md"] });
});

it("removes the reason for a missing score once the move is scored", () => {
  const again = fold(whole, [{ seq: 14, type: "sandbox_scored", move: "m2", score: 40, breakdown: {} }]);
  expect(whole.debates["m2"]?.reason).toBe("the model refused");
  expect(whole.notices.map((it) => it.kind)).toEqual(["degraded", "skipped"]);
  expect(again.debates["m2"]).toMatchObject({ status: "done", score: 40, reason: null });
  expect(again.notices.map((it) => it.kind)).toEqual(["degraded"]);
});

it("names the move whose debate runs with less isolation, also after it is scored", () => {
  const view = fold(whole, [
    { seq: 14, type: "sandbox_degraded", move: "m2", backend: "jail", isolation: "process", reason: "no guest today" },
    { seq: 15, type: "sandbox_scored", move: "m2", score: 40, breakdown: {} },
  ]);
  expect(view.notices.at(-1)).toEqual({
    seq: 14,
    kind: "degraded",
    text: "m2 runs with jail (isolation: process, shares the host's kernel).",
    detail: "no guest today",
    move: "m2",
  });
});

/** Shuffles deterministically, so that a failure can be reproduced. */
function shuffled<T>(items: readonly T[], seed: number): T[] {
  const left = [...items];
  const out: T[] = [];
  for (let state = seed; left.length > 0;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    out.push(...left.splice(state % left.length, 1));
  }
  return out;
}

describe("the view of a run", () => {
  it("reflects the events", () => {
    expect(whole.layers["0"]).toEqual({ status: "done", artifacts: ["financial.md"] });
    expect(whole.agents["writer"]).toMatchObject({ status: "done", outputs: ["financial.md"], reason: null });
    expect(whole.debates["m1"]).toMatchObject({
      title: "Sell it",
      status: "done",
      round: 1,
      score: 54,
      isolation: "off",
    });
    expect(whole.debates["m1"]!.threads["i2"]).toEqual([
      { round: 1, role: "critic", content: "no 2" },
      { round: 1, role: "maker", content: "yes 2" },
    ]);
    expect(whole.debates["m2"]).toMatchObject({ status: "failed", score: null, reason: "the model refused" });
    expect(whole.notices.map((it) => it.kind)).toEqual(["degraded", "skipped"]);
    expect(whole.notices[0]).toMatchObject({
      text: "Debates run with in-process (isolation: off, NOT ISOLATED).",
      detail: "isolation is switched off",
    });
    expect(whole.recommended).toEqual(["m1"]);
    expect(whole.last).toBe(13);
  });

  it("is the same when events arrive one at a time", () => {
    const view = EVENTS.reduce((it, event) => fold(it, [event]), emptyView());
    expect(view).toEqual(whole);
  });

  it("is the same when every event arrives twice", () => {
    const view = EVENTS.reduce((it, event) => fold(it, [event, event]), emptyView());
    expect(fold(view, EVENTS)).toEqual(whole);
  });

  it("is the same for any order of events", () => {
    for (let seed = 1; seed <= 50; seed += 1) {
      const view = shuffled(EVENTS, seed).reduce((it, event) => fold(it, [event]), emptyView());
      expect(view).toEqual(whole);
    }
  });

  it("is the same after a reconnect that repeats events", () => {
    for (let at = 0; at <= EVENTS.length; at += 1) {
      const before = fold(emptyView(), EVENTS.slice(0, at));
      expect(fold(before, EVENTS.slice(Math.max(0, at - 3)))).toEqual(whole);
    }
  });

  it("holds back events after a gap", () => {
    const view = fold(
      emptyView(),
      EVENTS.filter((it) => it.seq !== 9),
    );
    expect(view.last).toBe(8);
    expect(view.pending.map((it) => it.seq)).toEqual([10, 11, 12, 13]);
    expect(view.debates["m1"]!.score).toBeNull();
    expect(fold(view, [EVENTS[8]!])).toEqual(whole);
  });

  it("skips events that the server does not have", () => {
    const torn = fold(
      emptyView(),
      EVENTS.filter((it) => it.seq !== 6),
    );
    const view = fillGap(
      torn,
      EVENTS.filter((it) => it.seq > 6),
    );
    expect(view.last).toBe(13);
    expect(view.pending).toEqual([]);
    expect(view.debates["m1"]!.score).toBe(54);
  });

  it("ignores events of unknown types", () => {
    const strange = { seq: 14, type: "something_new" } as unknown as RunEvent;
    expect(fold(whole, [strange])).toEqual({ ...whole, last: 14 });
  });

  it("does not mutate earlier states", () => {
    const early = fold(emptyView(), EVENTS.slice(0, 9));
    const copy = structuredClone(early);
    fold(early, EVENTS);
    expect(early).toEqual(copy);
  });
});
