import { describe, expect, it } from "vitest";

import { liveStatuses } from "@studio/graph/status";

import { emptyRun, fold } from "./fold";

const event = (event: string, data: unknown): { event: string; data: string; id: string } => ({
  event,
  data: JSON.stringify(data),
  id: "1-0",
});
const start = (name: string): object => ({ name, triggers: [`branch:to:${name}`], input: {} });
const end = (name: string, more: object = {}): object => ({ name, error: null, interrupts: [], result: {}, ...more });
const foldAll = (...events: ReturnType<typeof event>[]): ReturnType<typeof emptyRun> =>
  events.reduce(fold, emptyRun("r"));

describe("the view of a run", () => {
  it("knows the status of every node, also inside subgraphs", () => {
    const task = "0f0e0d0c-0000-4000-8000-000000000000";
    const view = foldAll(
      event("tasks", start("a")),
      event("tasks", end("a")),
      event("tasks", start("child")),
      event(`tasks|child:${task}`, start("inner")),
      event("tasks", start("bad")),
      event("tasks", end("bad", { error: { error: "ValueError", message: "boom" } })),
      event("tasks", start("asks")),
      event("tasks", end("asks", { interrupts: [{ id: "1", value: "?" }] })),
    );
    expect(liveStatuses(view, false)).toEqual({ a: "done", bad: "failed", asks: "waiting" });
    expect(liveStatuses(view, true)).toEqual({
      a: "done",
      child: "running",
      "child:inner": "running",
      bad: "failed",
      asks: "waiting",
    });
  });

  it("counts parallel tasks of one node", () => {
    const view = foldAll(event("tasks", start("a")), event("tasks", start("a")), event("tasks", end("a")));
    expect(view.nodes["a"]).toEqual({ running: 1, done: 1, failed: 0, interrupted: 0 });
  });

  it("collects the checkpoints of the top-level graph", () => {
    const wire = {
      config: { configurable: { checkpoint_id: "c2" } },
      parent_config: { configurable: { checkpoint_id: "c1" } },
      values: { n: 1 },
      metadata: { step: 1, source: "loop" },
      next: ["b"],
      tasks: [{ id: "t", name: "b" }],
    };
    const view = foldAll(event("checkpoints", wire), event("checkpoints|child:1", wire));
    expect(view.checkpoints).toHaveLength(1);
    expect(view.checkpoints[0]).toMatchObject({ id: "c2", parent: "c1", step: 1, next: ["b"], run: "r" });
  });

  it("joins the pieces of messages", () => {
    const piece = (content: string): unknown => [{ type: "AIMessageChunk", id: "m", content }, {}];
    const view = foldAll(
      event("messages", piece("Hel")),
      event("messages", piece("lo")),
      event("messages", [{ type: "tool", id: "t", content: "done" }, {}]),
    );
    expect(view.messages.map((it) => [it.type, it.content])).toEqual([
      ["ai", "Hello"],
      ["tool", "done"],
    ]);
  });

  it("keeps errors and custom events, and ignores unknown ones", () => {
    const view = foldAll(
      event("custom", { tick: 1 }),
      event("surprise", {}),
      event("error", { error: "E", message: "no" }),
    );
    expect(view.custom).toEqual([{ path: "", value: { tick: 1 } }]);
    expect(view.error).toEqual({ error: "E", message: "no" });
  });
});
