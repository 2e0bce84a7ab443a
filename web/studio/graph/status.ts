/** Statuses of nodes, from the events of a run or from a checkpoint. */

import type { TaskState } from "@studio/api/types";
import type { Checkpoint } from "@studio/history/checkpoint";
import { executedNodes, pathTo } from "@studio/history/tree";
import type { NodeProgress, RunView } from "@studio/run/fold";

export type NodeStatus = "idle" | "next" | "running" | "waiting" | "done" | "failed";

/** Statuses by path of the node. */
export type Statuses = Readonly<Record<string, NodeStatus>>;

export const STATUS_WORDS: Record<NodeStatus, string> = {
  idle: "not run",
  next: "runs next",
  running: "running",
  waiting: "waiting for an answer",
  done: "done",
  failed: "failed",
};

/** Returns the statuses in a run. In a run that has ended, no node is running, even if the run was cancelled. */
export function liveStatuses({ nodes }: RunView, isActive: boolean): Statuses {
  const statuses = Object.entries(nodes).map(([path, it]): [string, NodeStatus] => [path, statusOf(it)]);
  return Object.fromEntries(statuses.filter(([, status]) => isActive || status !== "running"));
}

function statusOf(node: NodeProgress): NodeStatus {
  if (node.running > 0) return "running";
  if (node.failed > 0) return "failed";
  return node.interrupted > 0 ? "waiting" : "done";
}

/** Returns the statuses at a checkpoint: the nodes that its run has executed, and those that are pending. */
export function statusesAt(all: readonly Checkpoint[], id: string | null): Statuses {
  const path = pathTo(all, id);
  const last = path.at(-1);
  if (!last) return {};
  const statuses: Record<string, NodeStatus> = {};
  const from = path.findLastIndex((it) => it.source === "input");
  for (const checkpoint of path.slice(Math.max(0, from))) {
    for (const node of executedNodes(all, checkpoint)) statuses[node] = "done";
  }
  addPending(statuses, "", last.next, last.tasks);
  return statuses;
}

function addPending(
  statuses: Record<string, NodeStatus>,
  outer: string,
  next: readonly string[],
  tasks: readonly TaskState[],
): void {
  const pathOf = (name: string): string => (outer === "" ? name : `${outer}:${name}`);
  for (const name of next) statuses[pathOf(name)] = "next";
  for (const task of tasks) {
    if (task.error !== null) statuses[pathOf(task.name)] = "failed";
    else if (task.interrupts.length > 0) statuses[pathOf(task.name)] = "waiting";
    if (task.state) addPending(statuses, pathOf(task.name), task.state.next, task.state.tasks);
  }
}

/** Most important status first. */
const ORDER: NodeStatus[] = ["failed", "waiting", "running", "next", "done"];

/** Returns the status of a drawn node. A closed subgraph has the most important status of the nodes inside. */
export function drawnStatus(id: string, statuses: Statuses): NodeStatus {
  const own = statuses[id];
  const inside = Object.keys(statuses).filter((it) => it.startsWith(`${id}:`));
  const all = [...(own ? [own] : []), ...inside.map((it) => statuses[it]!)];
  if (own === "done") return "done";
  return ORDER.find((it) => all.includes(it)) ?? "idle";
}
