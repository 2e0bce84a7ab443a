/** Calls to the server. Every failure becomes an `ApiError` that says what happened. */

import type { ResultAnswer } from "./report";
import type { RunEvent } from "./events";
import type {
  Drawings,
  Fork,
  Move,
  Plan,
  Run,
  RunDiff,
  RunFile,
  RunOptions,
  RunSummary,
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

  /** Whether the server wants an API key. */
  get wantsKey(): boolean {
    return this.status === 401;
  }
}

/** The key lives as long as the tab and goes nowhere but into the header. */
export const key = {
  get: (): string | null => sessionStorage.getItem(KEY),
  set: (value: string): void => sessionStorage.setItem(KEY, value),
};

/** Sends a request with the key, and turns every answer that is no success into an `ApiError`. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const secret = key.get();
  if (secret !== null) headers.set("Authorization", `Bearer ${secret}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, "unreachable", "The server cannot be reached.", null);
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer: Response): Promise<ApiError> {
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

const of = (id: string): string => `/api/runs/${encodeURIComponent(id)}`;

export const api = {
  setup: () => get<Setup>("/api/setup"),
  graph: () => get<Drawings>("/api/graph"),
  plan: (it: { rounds: number; baseline: boolean; concurrency: number }, signal?: AbortSignal) =>
    get<Plan>(`/api/plan?rounds=${it.rounds}&baseline=${it.baseline}&concurrency=${it.concurrency}`, signal),
  analyze: (options: RunOptions) => post<Started>("/api/analyze", options),
  runs: (before?: string) =>
    get<{ runs: RunSummary[]; next: string | null }>(
      `/api/runs?limit=20${before ? `&before=${encodeURIComponent(before)}` : ""}`,
    ),
  run: (id: string, signal?: AbortSignal) => get<Run>(of(id), signal),
  events: (id: string, after: number, signal?: AbortSignal) =>
    get<{ events: RunEvent[]; last: number }>(`${of(id)}/events?after=${after}&limit=1000`, signal),
  result: (id: string, signal?: AbortSignal) => get<ResultAnswer>(`/api/results/${encodeURIComponent(id)}`, signal),
  review: (id: string) => get<{ moves: Move[] }>(`${of(id)}/review`),
  resume: (id: string, body: { moves?: Move[]; max_tokens?: number; max_dollars?: number }) =>
    post<Started>(`${of(id)}/resume`, body),
  fork: (id: string, fork: Fork) => post<Started>(`${of(id)}/fork`, fork),
  cancel: (id: string) => post<Started>(`${of(id)}/cancel`, {}),
  compare: (a: string, b: string) => get<RunDiff>(`/api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`),
  files: (id: string, signal?: AbortSignal) => get<{ files: RunFile[] }>(`${of(id)}/files`, signal),
  file: async (id: string, name: string, signal?: AbortSignal) =>
    (await send(`${of(id)}/files/${encodeURIComponent(name)}`, signal ? { signal } : {})).text(),
  /** A file of a run that may not have written it yet. */
  fileIfThere: async (id: string, name: string, signal?: AbortSignal): Promise<string | null> => {
    const { files } = await api.files(id, signal);
    return files.some((it) => it.name === name) ? api.file(id, name, signal) : null;
  },
  /** Fetches a file with the key and hands it to the browser to save. */
  download: async (id: string, name: string) => {
    const path = name === "trace.json" ? `${of(id)}/trace` : `${of(id)}/files/${encodeURIComponent(name)}`;
    const blob = await (await send(path)).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${id}-${name}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  },
};
