import { describe, expect, it } from "vitest";

import type { Checkpoint } from "@studio/history/checkpoint";

import { usageByRun } from "./run-usage";

const ai = (id: string, output: number): object => ({
  type: "ai",
  content: "",
  id,
  usage: { input: 10, output, cost: 0.25 },
});
const checkpoint = (
  id: string,
  parent: string | null,
  run: string,
  messages: object[],
  more: Partial<Checkpoint> = {},
): Checkpoint => ({
  id,
  parent,
  step: 0,
  source: "loop",
  values: { messages } as never,
  next: [],
  tasks: [],
  createdAt: null,
  run,
  ...more,
});

describe("the usage of runs", () => {
  it("counts the messages that the steps of each run have added", () => {
    const [one, two, three] = [ai("1", 1), ai("2", 2), ai("3", 4)];
    const all = [
      checkpoint("a", null, "r1", []),
      checkpoint("b", "a", "r1", [one]),
      checkpoint("c", "b", "r1", [one, two]),
      // A step that removes messages does not reduce the usage.
      checkpoint("d", "c", "r2", [three]),
      // A fork counts only its own messages.
      checkpoint("e", "b", "r3", [one, three]),
    ];
    expect(Object.fromEntries(usageByRun(all))).toEqual({
      r1: { input: 20, output: 3, cost: 0.5 },
      r2: { input: 10, output: 4, cost: 0.25 },
      r3: { input: 10, output: 4, cost: 0.25 },
    });
  });

  it("does not count the input, edits, or steps whose parent is unknown", () => {
    const all = [
      checkpoint("a", null, "r1", [], { source: "input", next: ["__start__"] }),
      checkpoint("b", "a", "r1", [ai("1", 1)]),
      checkpoint("c", "b", "r1", [ai("2", 1)], { source: "update" }),
      checkpoint("d", "missing", "r2", [ai("1", 1)]),
    ];
    expect(usageByRun(all).size).toBe(0);
  });

  it("is unknown for runs without messages that report it", () => {
    const human = { type: "human", content: "hi" };
    const all = [checkpoint("a", null, "r1", []), checkpoint("b", "a", "r1", [human])];
    expect(usageByRun(all).size).toBe(0);
  });
});
