/** Client for the HTTP API of `consulting serve`. */

import { get, post, send } from "./http";
import type { ResultAnswer } from "./report";
import type { RunEvent } from "./events";
import { isLive } from "./status";
import type { EventLog } from "./stream";
import type {
  Drawings,
  Fork,
  ServerInfo,
  ModelCall,
  Move,
  Plan,
  Run,
  RunDiff,
  RunFile,
  RunOptions,
  RunStatus,
  Runs,
  Setup,
  Started,
} from "./types";

/** Path of a comparison, in the web interface and, below `/api`, on the server. */
export const comparison = (a: string, b: string): string =>
  `/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;

/** URL of the trace of a debate, or of the `pipeline`, as a page. */
export const tracePage = (id: string, name: string): string => `${runPath(id)}/trace/${encodeURIComponent(name)}`;

const runPath = (id: string): string => `/api/runs/${encodeURIComponent(id)}`;

export const api = {
  /** Returns only `ServerInfo` if the server requires an API key and the request has no valid one. */
  setup: () => get<ServerInfo | Setup>("/api/setup"),
  graph: (signal?: AbortSignal) => get<Drawings>("/api/graph", signal),
  plan: (it: { rounds: number; baseline: boolean; concurrency: number }, signal?: AbortSignal) =>
    get<Plan>(`/api/plan?rounds=${it.rounds}&baseline=${it.baseline}&concurrency=${it.concurrency}`, signal),
  analyze: (options: RunOptions) => post<Started>("/api/analyze", options),
  runs: ({ limit, before }: { limit: number; before?: string }, signal?: AbortSignal) =>
    get<Runs>(`/api/runs?limit=${limit}${before ? `&before=${encodeURIComponent(before)}` : ""}`, signal),
  run: (id: string, signal?: AbortSignal) => get<Run>(runPath(id), signal),
  events: (id: string, after: number, signal?: AbortSignal) =>
    get<{ events: RunEvent[]; last: number }>(`${runPath(id)}/events?after=${after}&limit=1000`, signal),
  result: (id: string, signal?: AbortSignal) => get<ResultAnswer>(`/api/results/${encodeURIComponent(id)}`, signal),
  review: (id: string, signal?: AbortSignal) => get<{ moves: Move[] }>(`${runPath(id)}/review`, signal),
  resume: (id: string, body: { moves?: Move[]; max_tokens?: number; max_dollars?: number }) =>
    post<Started>(`${runPath(id)}/resume`, body),
  fork: (id: string, fork: Fork) => post<Started>(`${runPath(id)}/fork`, fork),
  delete: (id: string) => send(runPath(id), { method: "DELETE" }),
  calls: (id: string, agent: string, move: string | null, signal?: AbortSignal) =>
    get<{ calls: ModelCall[] }>(
      `${runPath(id)}/calls?agent=${encodeURIComponent(agent)}${move === null ? "" : `&move=${encodeURIComponent(move)}`}`,
      signal,
    ),
  cancel: (id: string) => post<Started>(`${runPath(id)}/cancel`, {}),
  compare: (a: string, b: string, signal?: AbortSignal) => get<RunDiff>(`/api${comparison(a, b)}`, signal),
  files: (id: string, signal?: AbortSignal) => get<{ files: RunFile[] }>(`${runPath(id)}/files`, signal),
  file: async (id: string, name: string, signal?: AbortSignal) =>
    (await send(`${runPath(id)}/files/${encodeURIComponent(name)}`, signal ? { signal } : {})).text(),
  download: (id: string, name: string) =>
    save(
      name === "trace.json" ? `${runPath(id)}/trace` : `${runPath(id)}/files/${encodeURIComponent(name)}`,
      `${id}-${name}`,
    ),
  downloadTracePage: (id: string, name: string) => save(tracePage(id, name), `${id}-${name}-trace.html`),
};

/** Returns the events of a run. */
export const runEvents = (id: string): EventLog<RunEvent, RunStatus> => ({
  stream: `/api/stream/${encodeURIComponent(id)}`,
  stored: async (after, signal) => (await api.events(id, after, signal)).events,
  status: async (signal) => (await api.run(id, signal)).status,
  isLive,
});

/** Downloads a file with the API key and lets the browser save it. */
async function save(path: string, name: string): Promise<void> {
  const blob = await (await send(path)).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
