/** Client for the HTTP API. Every failure becomes an `ApiError`. */

import type { ResultAnswer } from "./report";
import type { RunEvent } from "./events";
import type {
  Drawings,
  Fork,
  ServerInfo,
  Move,
  Plan,
  Run,
  RunDiff,
  RunFile,
  RunOptions,
  Runs,
  Setup,
  Started,
} from "./types";

const KEY = "consulting.key";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** API key, stored until the tab is closed and sent only in the `Authorization` header. */
export const key = {
  get: (): string | null => sessionStorage.getItem(KEY),
  set: (value: string): void => sessionStorage.setItem(KEY, value),
  /** Called when the server rejects the key or requires one. */
  onRejected: (): void => {},
};

/** Sends a request with the API key. Throws an `ApiError` for unsuccessful responses. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const secret = key.get();
  if (secret !== null) headers.set("Authorization", `Bearer ${secret}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, "unreachable", "The server is unreachable.", null);
  }
  if (answer.status === 401) key.onRejected();
  if (!answer.ok) throw await toApiError(answer);
  return answer;
}

async function toApiError(answer: Response): Promise<ApiError> {
  const body: unknown = await answer.json().catch(() => null);
  const error = (body as { error?: { code?: string; message?: string } } | null)?.error;
  return new ApiError(
    answer.status,
    error?.code ?? "http",
    error?.message ?? `The server answered ${answer.status} ${answer.statusText}.`.replace(" .", "."),
    answer.headers.get("x-request-id"),
  );
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await send(path, signal ? { signal } : {});
  return (await answer.json()) as T;
}

async function post<T>(path: string, body: unknown): Promise<T> {
  const answer = await send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await answer.json()) as T;
}

/** Path of a comparison, in the web interface and, below `/api`, on the server. */
export const comparison = (a: string, b: string): string =>
  `/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;

const runPath = (id: string): string => `/api/runs/${encodeURIComponent(id)}`;

export const api = {
  /** Without a required key, the server returns only `ServerInfo`. */
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
  cancel: (id: string) => post<Started>(`${runPath(id)}/cancel`, {}),
  compare: (a: string, b: string, signal?: AbortSignal) => get<RunDiff>(`/api${comparison(a, b)}`, signal),
  files: (id: string, signal?: AbortSignal) => get<{ files: RunFile[] }>(`${runPath(id)}/files`, signal),
  file: async (id: string, name: string, signal?: AbortSignal) =>
    (await send(`${runPath(id)}/files/${encodeURIComponent(name)}`, signal ? { signal } : {})).text(),
  /** Downloads a file with the API key and lets the browser save it. */
  download: async (id: string, name: string) => {
    const path = name === "trace.json" ? `${runPath(id)}/trace` : `${runPath(id)}/files/${encodeURIComponent(name)}`;
    const blob = await (await send(path)).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${id}-${name}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  },
};
