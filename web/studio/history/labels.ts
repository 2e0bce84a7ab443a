/** Names of checkpoints. */

import type { Checkpoint } from "./checkpoint";
import { executedNodes, leavesOf } from "./tree";

const SOURCES: Record<string, string> = { input: "Input", update: "Edited state", fork: "Fork" };

/** Returns what created a checkpoint: the nodes that ran, an input or an edit. */
export function labelOf(all: readonly Checkpoint[], checkpoint: Checkpoint): string {
  const nodes = executedNodes(all, checkpoint);
  if (nodes.length > 0) return counted(nodes.map((it) => (it === "__start__" ? "start" : it)));
  return SOURCES[checkpoint.source] ?? (checkpoint.step < 1 ? "Start" : "Step");
}

/** Joins names; repeated names are counted. */
export function counted(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const it of names) counts.set(it, (counts.get(it) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} × ${count}` : name)).join(", ");
}

/** Returns the name of the branch that ends with a checkpoint. */
export function branchName(all: readonly Checkpoint[], leaf: Checkpoint): string {
  const number = leavesOf(all).findIndex((it) => it.id === leaf.id) + 1;
  return `Branch ${number}: step ${leaf.step}, ${labelOf(all, leaf)}`;
}
