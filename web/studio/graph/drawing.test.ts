import { describe, expect, it } from "vitest";

import { picture, subgraphsOf } from "./drawing";
import { layout } from "./layout";
import { drawnStatus, statusesAt } from "./status";

const drawing = {
  nodes: ["__start__", "a", "child:x", "child:deep:y", "__end__"].map((id) => ({ id })),
  edges: [
    { source: "__start__", target: "a" },
    { source: "a", target: "child:x", conditional: true, data: "yes" },
    { source: "a", target: "a", conditional: true },
    { source: "child:x", target: "child:deep:y" },
    { source: "child:deep:y", target: "__end__" },
  ],
  runs_in: { "child:deep": "sandbox" },
};
const edges = (opened: string[]): string[] => picture(drawing, new Set(opened)).edges.map((it) => it.id);

describe("the picture of a graph", () => {
  it("closes subgraphs", () => {
    expect(subgraphsOf(drawing)).toEqual(["child", "child:deep"]);
    expect(edges([])).toEqual(["__start__ → a", "a → child", "a → a", "child → __end__"]);
    const { nodes } = picture(drawing, new Set());
    expect(nodes.map((it) => it.kind)).toEqual(["start", "node", "closed subgraph", "end"]);
  });

  it("opens subgraphs one level at a time", () => {
    expect(edges(["child"])).toContain("child:x → child:deep");
    expect(edges(["child", "child:deep"])).toContain("child:x → child:deep:y");
    const { nodes } = picture(drawing, new Set(["child"]));
    expect(nodes.find((it) => it.id === "child:deep")).toEqual({
      id: "child:deep",
      name: "deep",
      parent: "child",
      kind: "closed subgraph",
      runsIn: "sandbox",
    });
  });

  it("places every node, also inside an opened subgraph", () => {
    for (const opened of [[], ["child"], ["child", "child:deep"]]) {
      const placed = layout(picture(drawing, new Set(opened)), "LR");
      for (const { box } of placed.nodes) {
        expect(Object.values(box).every(Number.isFinite)).toBe(true);
        expect(box.width).toBeGreaterThan(0);
      }
      expect(placed.edges.every((it) => it.points.length > 1)).toBe(true);
    }
  });
});

describe("the status of a drawn node", () => {
  it("is the most important one inside a closed subgraph", () => {
    expect(drawnStatus("child", { child: "running", "child:x": "done", "child:deep:y": "waiting" })).toBe("waiting");
    expect(drawnStatus("child", { child: "done", "child:x": "running" })).toBe("done");
    expect(drawnStatus("other", { child: "running" })).toBe("idle");
  });

  it("follows from the checkpoints of the last input", () => {
    const at = (id: string, parent: string | null, source: string, next: string[]): never =>
      ({ id, parent, source, next, tasks: [], values: {} }) as never;
    const all = [
      at("1", null, "input", ["a"]),
      at("2", "1", "loop", []),
      at("3", "2", "input", ["b"]),
      at("4", "3", "loop", ["c"]),
    ];
    expect(statusesAt(all, "4")).toEqual({ b: "done", c: "next" });
    expect(statusesAt(all, "2")).toEqual({ a: "done" });
    expect(statusesAt(all, null)).toEqual({});
  });
});
