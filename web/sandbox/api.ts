/** Types and client of the HTTP API of `agent-sandbox serve`. */

import { get, post } from "@/lib/http";
import type { EventLog } from "@/lib/stream";

import type { JobEvent } from "./attempts";

export type JobStatus = "queued" | "running" | "waiting" | "complete" | "error" | "cancelled";

export interface JobListItem {
  job_id: string;
  task: string;
  status: JobStatus;
  outcome: null | { success: boolean; attempts: number; tokens: number; cost_dollars: number };
}

interface Call {
  role: string;
  model: string;
  attempt: number;
  input: number;
  output: number;
  latency_ms: number;
}

export interface Job {
  job_id: string;
  task: string;
  status: JobStatus;
  error: string | null;
  /** Present once the job is complete. */
  result: null | { calls?: Call[] };
}

export interface Health {
  /** `ok`, or `full` if no more jobs are accepted. */
  status: string;
  provider: string;
  sandbox: string;
  isolation: string;
  /** Whether a kernel limits the memory of programs. */
  memory_bounded: boolean;
}

export interface Stats {
  uptime_seconds: number;
  jobs: Record<string, number>;
  pool: {
    size: number;
    alive: number;
    ready: number;
    in_use: number;
    most_in_use: number;
    executions: number;
    warm: number;
    cold: number;
    acquire_p50_ms: number;
    acquire_p95_ms: number;
  };
}

export interface JobRequest {
  task: string;
  tests?: string;
  expect?: string;
  max_attempts?: number;
}

const jobPath = (id: string): string => `/jobs/${encodeURIComponent(id)}`;

export const api = {
  health: (signal?: AbortSignal) => get<Health>("/health", signal),
  stats: (signal?: AbortSignal) => get<Stats>("/stats", signal),
  jobs: (signal?: AbortSignal) => get<JobListItem[]>("/jobs?limit=50", signal),
  job: (id: string, signal?: AbortSignal) => get<Job>(jobPath(id), signal),
  execute: (job: JobRequest) => post<{ job_id: string }>("/execute", job),
  cancel: (id: string) => post<unknown>(`${jobPath(id)}/cancel`, {}),
  resume: (id: string) => post<unknown>(`${jobPath(id)}/resume`, {}),
  events: (id: string, after: number, signal?: AbortSignal) =>
    get<{ events: JobEvent[]; last: number }>(`${jobPath(id)}/events?after=${after}`, signal),
};

export const isActive = (status: JobStatus): boolean => status === "queued" || status === "running";

/** Returns the events of a job. */
export const jobEvents = (id: string): EventLog<JobEvent, JobStatus> => ({
  stream: `${jobPath(id)}/stream`,
  stored: async (after, signal) => (await api.events(id, after, signal)).events,
  status: async (signal) => (await api.job(id, signal)).status,
  isLive: isActive,
});
