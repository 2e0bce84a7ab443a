import { describe, expect, it } from "vitest";

import { type Checkpoint, mergeCheckpoints } from "./checkpoint";
import { branchName, labelOf } from "./labels";
import { branchOf, childrenOf, divergence, executedNodes, leavesOf, pathTo } from "./tree";

const checkpoint = (id: string, parent: string | null, next: string[] = [], source = "loop"): Checkpoint => ({
  id,
  parent,
  step: id.length,
  source,
  values: {},
  next,
  tasks: [],
  createdAt: null,
  run: null,
});

/** a, b and c in a row; d is a fork after b, and e continues it. */
const all = [
  checkpoint("a", null, ["x"], "input"),
  checkpoint("b", "a", ["y"]),
  checkpoint("c", "b"),
  checkpoint("d", "b", ["y", "y"], "update"),
  checkpoint("e", "d"),
];
const ids = (list: Checkpoint[]): string => list.map((it) => it.id).join("");

describe("the tree of checkpoints", () => {
  it("has a path to every checkpoint", () => {
    expect(ids(pathTo(all, "e"))).toBe("abde");
    expect(ids(pathTo(all, null))).toBe("");
    expect(ids(pathTo(all, "unknown"))).toBe("");
  });

  it("continues a branch along its newest children", () => {
    expect(ids(branchOf(all, "c"))).toBe("abc");
    expect(ids(branchOf(all, "b"))).toBe("abde");
  });

  it("ends, even if parents form a circle", () => {
    const circle = [checkpoint("a", "b"), checkpoint("b", "a")];
    expect(ids(pathTo(circle, "a"))).toBe("ba");
    expect(ids(branchOf(circle, "a"))).toBe("ba");
  });

  it("has one leaf per branch", () => {
    expect(ids(leavesOf(all))).toBe("ce");
    expect(ids(childrenOf(all, "b"))).toBe("cd");
  });

  it("shows where two branches diverge", () => {
    const { common, left, right } = divergence(all, "c", "e");
    expect([ids(common), ids(left), ids(right)]).toEqual(["ab", "c", "de"]);
  });
});

describe("the label of a checkpoint", () => {
  it("names what created it", () => {
    expect(all.map((it) => labelOf(all, it))).toEqual(["Input", "x", "y", "Edited state", "y × 2"]);
    expect(executedNodes(all, all[3]!)).toEqual([]);
    expect(branchName(all, all[4]!)).toBe("Branch 2: step 1, y × 2");
  });
});

describe("stored and received checkpoints", () => {
  it("are merged without duplicates", () => {
    expect(ids(mergeCheckpoints(all.slice(0, 2), all.slice(1, 3)))).toBe("abc");
  });
});
