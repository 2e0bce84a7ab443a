/** The tree that the checkpoints of a thread form. Every fork adds a branch. */

import type { Checkpoint } from "./checkpoint";

/** Returns the checkpoints from the first one to the given one, oldest first. */
export function pathTo(all: readonly Checkpoint[], id: string | null): Checkpoint[] {
  const byId = new Map(all.map((it) => [it.id, it]));
  const path: Checkpoint[] = [];
  const seen = new Set<string>();
  for (let at = id; at !== null && !seen.has(at);) {
    const checkpoint = byId.get(at);
    if (!checkpoint) break;
    seen.add(at);
    path.unshift(checkpoint);
    at = checkpoint.parent;
  }
  return path;
}

/** Returns the branch that contains a checkpoint: the path to it, continued along the newest children. */
export function branchOf(all: readonly Checkpoint[], id: string | null): Checkpoint[] {
  const branch = pathTo(all, id);
  for (;;) {
    const last = branch.at(-1);
    const next = last && childrenOf(all, last.id).at(-1);
    if (!next || branch.includes(next)) return branch;
    branch.push(next);
  }
}

/** Returns the children of a checkpoint, oldest first. */
export function childrenOf(all: readonly Checkpoint[], id: string): Checkpoint[] {
  return all.filter((it) => it.parent === id);
}

/** Returns the last checkpoints of all branches, oldest first. */
export function leavesOf(all: readonly Checkpoint[]): Checkpoint[] {
  const parents = new Set(all.map((it) => it.parent));
  return all.filter((it) => !parents.has(it.id));
}

/** Returns the nodes that ran between the parent of a checkpoint and the checkpoint. */
export function executedNodes(all: readonly Checkpoint[], checkpoint: Checkpoint): string[] {
  if (checkpoint.source !== "loop") return [];
  return all.find((it) => it.id === checkpoint.parent)?.next ?? [];
}

/** The common part of two branches, and the rest of each. */
export interface Divergence {
  common: Checkpoint[];
  left: Checkpoint[];
  right: Checkpoint[];
}

export function divergence(all: readonly Checkpoint[], left: string, right: string): Divergence {
  const [a, b] = [pathTo(all, left), pathTo(all, right)];
  let shared = 0;
  while (shared < a.length && a[shared]?.id === b[shared]?.id) shared += 1;
  return { common: a.slice(0, shared), left: a.slice(shared), right: b.slice(shared) };
}
