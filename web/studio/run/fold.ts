/** Folds the events of a run into a view of it. Events arrive in order and without duplicates. */

import type { StreamEvent } from "@/lib/event-stream";
import type { Json, JsonObject, RunError, TaskState } from "@studio/api/types";
import { type Message, appendChunk, isMessage } from "@studio/chat/messages";
import type { Checkpoint } from "@studio/history/checkpoint";

/** Numbers of tasks of one node, by status. */
export interface NodeProgress {
  running: number;
  done: number;
  failed: number;
  interrupted: number;
}

export interface CustomEvent {
  /** The subgraph that sent the event; empty for the top-level graph. */
  path: string;
  value: Json;
}

export interface RunView {
  run: string;
  /** Progress by path of the node. The path of a node in a subgraph is `subgraph:node`. */
  nodes: Record<string, NodeProgress>;
  /** Checkpoints of the top-level graph, oldest first. */
  checkpoints: Checkpoint[];
  /** Messages sent by nodes, in the order in which they began. */
  messages: Message[];
  custom: CustomEvent[];
  error: RunError | null;
}

/** Number of custom events that are kept. */
const MAX_CUSTOM = 200;

export const emptyRun = (run: string): RunView => ({
  run,
  nodes: {},
  checkpoints: [],
  messages: [],
  custom: [],
  error: null,
});

/** Applies an event. Unknown kinds of events are ignored. */
export function fold(view: RunView, { event, data }: StreamEvent): RunView {
  const [kind = "", ...namespace] = event.split("|");
  const path = pathOf(namespace);
  const payload = JSON.parse(data) as JsonObject;
  switch (kind) {
    case "tasks":
      return { ...view, nodes: foldTask(view.nodes, path, payload as unknown as WireTask) };
    case "checkpoints":
      if (path !== "") return view;
      return { ...view, checkpoints: [...view.checkpoints, toCheckpoint(view.run, payload as never)] };
    case "messages":
      return { ...view, messages: foldMessage(view.messages, payload as unknown as [Json, JsonObject]) };
    case "custom":
      return { ...view, custom: [...view.custom, { path, value: payload }].slice(-MAX_CUSTOM) };
    case "error":
      return { ...view, error: payload as unknown as RunError };
    default:
      return view;
  }
}

/** Converts a namespace such as `["child:<task>", "inner:<task>"]` to the path `child:inner`. */
export function pathOf(namespace: readonly string[]): string {
  return namespace.map((it) => it.split(":")[0]).join(":");
}

interface WireTask {
  name: string;
  /** Only in the event that starts a task. */
  triggers?: string[];
  error?: RunError | null;
  interrupts?: unknown[];
}

function foldTask(nodes: Record<string, NodeProgress>, outer: string, task: WireTask): Record<string, NodeProgress> {
  const path = outer === "" ? task.name : `${outer}:${task.name}`;
  const node = { running: 0, done: 0, failed: 0, interrupted: 0, ...nodes[path] };
  if (task.triggers) node.running += 1;
  else {
    node.running = Math.max(0, node.running - 1);
    if (task.error) node.failed += 1;
    else if (task.interrupts && task.interrupts.length > 0) node.interrupted += 1;
    else node.done += 1;
  }
  return { ...nodes, [path]: node };
}

interface WireCheckpoint {
  config: { configurable: { checkpoint_id: string } };
  parent_config: { configurable: { checkpoint_id: string } } | null;
  values: JsonObject;
  metadata: { step: number; source: string };
  next: string[];
  tasks: { id: string; name: string }[];
}

function toCheckpoint(run: string, wire: WireCheckpoint): Checkpoint {
  return {
    id: wire.config.configurable.checkpoint_id,
    parent: wire.parent_config?.configurable.checkpoint_id ?? null,
    step: wire.metadata.step,
    source: wire.metadata.source,
    values: wire.values,
    next: wire.next,
    tasks: wire.tasks.map((it): TaskState => ({ ...it, error: null, interrupts: [], result: null, state: null })),
    createdAt: null,
    run,
  };
}

function foldMessage(messages: Message[], [message]: [Json, JsonObject]): Message[] {
  if (!isMessage(message)) return messages;
  const at = messages.findIndex((it) => typeof it["id"] === "string" && it["id"] === message["id"]);
  if (at < 0) return [...messages, appendChunk(null, message)];
  const isChunk = message.type.endsWith("Chunk");
  return messages.with(at, isChunk ? appendChunk(messages[at]!, message) : message);
}
