/** Types of the HTTP API. Unused fields are omitted. */

export type RunStatus = "queued" | "running" | "waiting" | "complete" | "error" | "cancelled";

export interface Person {
  id: string;
  name: string;
}

/** A persona with its configured model. */
export interface Agent extends Person {
  system_prompt: string;
  model: string;
  temperature: number;
}

interface Analyst extends Agent {
  moves: string[];
}

export interface Metric extends Person {
  question: string;
}

export interface Config {
  synthesizers: Agent[];
  inferences: Agent[];
  analysts: Analyst[];
  critic: Agent;
  decision_makers: Agent[];
  metrics: Metric[];
  rounds: number;
  top_k: number;
}

/** Information that is available without an API key. */
export interface ServerInfo {
  needs_key: boolean;
  version: string;
}

export interface Setup extends ServerInfo {
  provider: string;
  model: string | null;
  /** Source of the company data: `included`, `synthetic`, `edgar` or `dir`. */
  data: string;
  /** Companies whose filed figures the program includes. With `included`, other companies are synthetic. */
  included_tickers: string[];
  /** Default number of concurrent debates. */
  concurrency: number;
  config: Config;
}

export interface Drawing {
  nodes: { id: string; type: string }[];
  edges: { source: string; target: string; conditional: boolean }[];
}

export interface Drawings {
  pipeline: Drawing;
  debate: Drawing;
}

export interface Spending {
  name: string;
  calls: number;
  input_tokens: number;
  output_tokens: number;
  dollars: number | null;
}

export type Estimate = Omit<Spending, "name"> & { role: string };

export interface Plan {
  all: Estimate;
  roles: Estimate[];
  seconds: number;
}

export interface RunSummary {
  id: string;
  ticker: string;
  status: RunStatus;
  created_at: string;
  updated_at: string;
  ended_at: string | null;
  error: string | null;
  recommended: { move_id: string; title: string; score: number }[];
  /** Tokens and cost, once the run is complete; null if unknown. */
  tokens: number | null;
  dollars: number | null;
  from: string | null;
}

/** A page of runs, newest first, with the cursor of the next page. */
export interface Runs {
  runs: RunSummary[];
  next: string | null;
}

interface Usage {
  calls: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  dollars: number | null;
}

export interface Run extends RunSummary {
  usage: Usage;
  planned_calls: number;
  settings: {
    rounds: number;
    concurrency: number;
    baseline: boolean;
    review: boolean;
    seed: number | null;
    provider: string;
    model: string | null;
  };
  config: Config;
  /** Titles of the moves proposed so far, by id. */
  titles: Record<string, string>;
  branch: null | { from: string; at: string; only: boolean; set: string[] };
}

export interface Started {
  analysis_id: string;
  ticker: string;
  status: RunStatus;
}

export interface RunOptions {
  ticker: string;
  rounds?: number;
  seed?: number;
  concurrency?: number;
  baseline?: boolean;
  review?: boolean;
  max_tokens?: number;
  max_dollars?: number;
}

export interface Fork {
  at: string;
  set: string[];
  only: boolean;
  concurrency?: number;
}

export interface Move {
  move_id: string;
  agent_id: string;
  persona: string;
  ticker: string;
  title: string;
  risk_level: string;
  thesis: string;
  why_now: string;
  reasoning: string[];
  citations: string[];
  steps: { action: string; owner: string; timeframe: string }[];
  cost: string;
  downside: string;
  mitigation: string;
  falsifiers: string[];
  kpi: string;
}

/** An answered model call. */
export interface ModelCall {
  model: string;
  temperature: number | null;
  system_prompt: string;
  prompt: { role: string; text: string }[];
  answer: string;
  input_tokens: number;
  output_tokens: number;
  dollars: number | null;
  latency_ms: number;
}

export interface RunFile {
  name: string;
  bytes: number;
}

export interface Sides<T> {
  a: T;
  b: T;
}

export interface RunDiff {
  runs: Sides<string>;
  settings: { path: string; values: Sides<string | null> }[];
  first: null | { place: string; texts: Sides<string> };
  moves: { move_id: string; title: string; rank: Sides<number | null>; score: Sides<number | null> }[];
  cost: Sides<{ calls: number; input_tokens: number; output_tokens: number; dollars: number | null }>;
}
