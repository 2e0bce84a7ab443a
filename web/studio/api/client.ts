/** Client for LangGraph's HTTP API. */

import { get, jsonRequest, post, send } from "@/lib/http";

import type {
  Assistant,
  Drawing,
  JsonObject,
  Run,
  RunRequest,
  Schemas,
  StoreItem,
  Thread,
  ThreadState,
  ThreadStatus,
} from "./types";
import type { Page } from "./search-pages";

/** Largest page that the server returns. */
const MAX_PAGE = 1000;

/** Fields of a thread that lists show. */
const THREAD_FIELDS = ["thread_id", "created_at", "updated_at", "status", "metadata", "values", "error"];

const enc = encodeURIComponent;
const threadPath = (thread: string): string => `/threads/${enc(thread)}`;
const runPath = (thread: string, run: string): string => `${threadPath(thread)}/runs/${enc(run)}`;

/** Stream modes from which the view of a run is folded. */
const MODES = ["tasks", "checkpoints", "messages-tuple", "custom"];

export const api = {
  assistants: (signal: AbortSignal) =>
    post<Assistant[]>("/assistants/search", { limit: MAX_PAGE, sort_by: "name", sort_order: "asc" }, signal),
  drawing: (assistant: string, signal: AbortSignal) =>
    get<Drawing>(`/assistants/${enc(assistant)}/graph?xray=true`, signal),
  schemas: (assistant: string, signal: AbortSignal) => get<Schemas>(`/assistants/${enc(assistant)}/schemas`, signal),

  threads: (
    filter: { graph: string; status: ThreadStatus | null; id: string | null; metadata: JsonObject },
    page: Page,
    signal: AbortSignal,
  ) =>
    post<Thread[]>(
      "/threads/search",
      {
        metadata: { ...filter.metadata, graph_id: filter.graph },
        ...(filter.status && { status: filter.status }),
        ...(filter.id && { ids: [filter.id] }),
        ...page,
        select: THREAD_FIELDS,
      },
      signal,
    ),
  thread: (thread: string, signal: AbortSignal) => get<Thread>(threadPath(thread), signal),
  createThread: (graph: string) => post<Thread>("/threads", { graph_id: graph }),
  copyThread: (thread: string) => post<Thread>(`${threadPath(thread)}/copy`, {}),
  deleteThread: async (thread: string) => void (await send(threadPath(thread), { method: "DELETE" })),

  /** Newest state, with the states of its pending subgraphs. */
  state: (thread: string, signal: AbortSignal) =>
    get<ThreadState>(`${threadPath(thread)}/state?subgraphs=true`, signal),
  history: (thread: string, signal: AbortSignal) =>
    post<ThreadState[]>(`${threadPath(thread)}/history`, { limit: MAX_PAGE }, signal),
  updateState: (thread: string, body: { values: JsonObject; as_node?: string; checkpoint_id?: string }) =>
    post<{ checkpoint_id: string }>(`${threadPath(thread)}/state`, body),

  runs: (thread: string, { limit, offset }: Page, signal: AbortSignal) =>
    get<Run[]>(`${threadPath(thread)}/runs?limit=${limit}&offset=${offset}`, signal),
  run: (thread: string, run: string, signal: AbortSignal) => get<Run>(runPath(thread, run), signal),
  startRun: (thread: string, request: RunRequest) =>
    post<Run>(`${threadPath(thread)}/runs`, {
      ...request,
      stream_mode: MODES,
      stream_subgraphs: true,
      stream_resumable: true,
      multitask_strategy: "reject",
    }),
  cancelRun: async (thread: string, run: string) =>
    void (await send(`${runPath(thread, run)}/cancel?wait=true`, { method: "POST" })),
  runEvents: (thread: string, run: string) =>
    `${runPath(thread, run)}/stream?${MODES.map((it) => `stream_mode=${it}`).join("&")}`,

  namespaces: async (signal: AbortSignal) =>
    (await post<{ namespaces: string[][] }>("/store/namespaces", { limit: MAX_PAGE }, signal)).namespaces,
  items: async (search: { namespace: string[]; query: string; limit: number }, signal: AbortSignal) => {
    const { namespace, query, limit } = search;
    const body = { namespace_prefix: namespace, limit, ...(query !== "" && { query }) };
    return (await post<{ items: StoreItem[] }>("/store/items/search", body, signal)).items;
  },
  putItem: async (item: Pick<StoreItem, "namespace" | "key" | "value">) =>
    void (await send("/store/items", jsonRequest("PUT", item))),
  deleteItem: async (item: Pick<StoreItem, "namespace" | "key">) =>
    void (await send("/store/items", jsonRequest("DELETE", { namespace: item.namespace, key: item.key }))),
};
