/** Objects of LangGraph's HTTP API, with the fields that the studio reads. */

export type Json = null | boolean | number | string | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json;
}

export interface Assistant {
  assistant_id: string;
  graph_id: string;
  name: string;
  description: string | null;
  metadata: JsonObject;
}

export interface Drawing {
  nodes: { id: string; metadata?: JsonObject }[];
  edges: { source: string; target: string; conditional?: boolean; data?: string }[];
  /** Places of the subgraphs that run outside the process of their parent, such as `sandbox`. */
  runs_in?: Record<string, string>;
}

export interface Schemas {
  input_schema: JsonObject | null;
  state_schema: JsonObject | null;
  context_schema: JsonObject | null;
}

export type ThreadStatus = "idle" | "busy" | "interrupted" | "error";

export interface Thread {
  thread_id: string;
  created_at: string;
  updated_at: string;
  status: ThreadStatus;
  metadata: JsonObject;
  values: JsonObject | null;
  error: RunError | null;
}

export interface RunError {
  error: string;
  message: string;
}

export type RunStatus = "pending" | "running" | "success" | "error" | "interrupted" | "timeout";

export interface Run {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  status: RunStatus;
  created_at: string;
  updated_at: string;
  metadata: JsonObject;
  kwargs: { input: Json; command: JsonObject | null; checkpoint_id: string | null };
  cancel_reason: string | null;
}

export interface Interrupt {
  id: string;
  value: Json;
}

export interface TaskState {
  id: string;
  name: string;
  error: string | null;
  interrupts: Interrupt[];
  result: Json;
  /** State of the subgraph that the task runs, if it was requested and the task is pending. */
  state: { values: JsonObject; next: string[]; tasks: TaskState[] } | null;
}

/** State of a thread at a checkpoint. */
export interface ThreadState {
  values: JsonObject;
  next: string[];
  tasks: TaskState[];
  metadata: { step: number; source: string; run_id?: string } | null;
  created_at: string | null;
  checkpoint_id: string | null;
  parent_checkpoint_id: string | null;
}

export interface StoreItem {
  namespace: string[];
  key: string;
  value: JsonObject;
  created_at: string;
  updated_at: string;
}

/** Parameters of a new run. */
export interface RunRequest {
  assistant_id: string;
  input?: Json;
  command?: { resume: Json };
  context?: JsonObject;
  checkpoint_id?: string;
  interrupt_before?: string[];
  interrupt_after?: string[];
}
