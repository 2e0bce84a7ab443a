/** Checkpoints of a thread, from its history or from the events of a run. */

import type { JsonObject, TaskState, ThreadState } from "@studio/api/types";

export interface Checkpoint {
  id: string;
  parent: string | null;
  step: number;
  /** What created the checkpoint: `input`, `loop`, `update` or `fork`. */
  source: string;
  values: JsonObject;
  next: string[];
  tasks: TaskState[];
  createdAt: string | null;
  run: string | null;
}

/** Converts a state of the history. A thread that has never run has a state without a checkpoint. */
export function toCheckpoint(state: ThreadState): Checkpoint | null {
  if (state.checkpoint_id === null) return null;
  return {
    id: state.checkpoint_id,
    parent: state.parent_checkpoint_id,
    step: state.metadata?.step ?? 0,
    source: state.metadata?.source ?? "",
    values: state.values,
    next: state.next,
    tasks: state.tasks,
    createdAt: state.created_at,
    run: state.metadata?.run_id ?? null,
  };
}

/**
 * Combines the stored checkpoints with those received from a running run, oldest first. A stored checkpoint wins,
 * because it also has the results of its tasks.
 */
export function mergeCheckpoints(stored: readonly Checkpoint[], received: readonly Checkpoint[]): Checkpoint[] {
  const known = new Set(stored.map((it) => it.id));
  return [...stored, ...received.filter((it) => !known.has(it.id))];
}
