/** State of a run as derived from its events. */

import type { MakerScore, RunEvent } from "@/lib/events";
import type { IsolationLevel } from "@/lib/isolation";
import type { Turn } from "@/lib/report";

export type Status = "idle" | "running" | "done" | "failed";

/** Period of time in milliseconds since the epoch. Null where the time is unknown. */
export interface Period {
  started: number | null;
  ended: number | null;
}

interface AgentView extends Period {
  status: Status;
  outputs: string[];
  reason: string | null;
}

interface LayerView {
  status: Status;
  artifacts: string[];
}

/** The current step of a debate. */
export type DebateStep = "critic" | "makers" | "answered" | null;

export interface DebateView extends Period {
  move: string;
  title: string;
  status: Status;
  backend: string | null;
  isolation: IsolationLevel;
  /** Current round, counted from 1. */
  round: number;
  step: DebateStep;
  /** Turns by conversation. Events do not name the decision makers; their role is `maker`. */
  threads: Record<string, Turn[]>;
  score: number | null;
  breakdown: Record<string, MakerScore>;
  /** Reason for a missing score. */
  reason: string | null;
}

export interface Notice {
  seq: number;
  kind: "degraded" | "skipped" | "budget" | "failed" | "error";
  text: string;
  /** Reason, which the user can expand. */
  detail?: string;
  /** The move concerned. */
  move?: string;
}

/** Description of an event. */
export interface Line {
  seq: number;
  move: string | null;
  text: string;
}

export interface RunView {
  /** Sequence number of the last applied event. */
  last: number;
  /** Events received after one that is still missing. */
  pending: RunEvent[];
  layers: Record<string, LayerView>;
  agents: Record<string, AgentView>;
  debates: Record<string, DebateView>;
  notices: Notice[];
  /** Recent events, newest first. */
  lines: Line[];
  recommended: string[] | null;
  error: string | null;
}

export function emptyView(): RunView {
  return {
    last: 0,
    pending: [],
    layers: {},
    agents: {},
    debates: {},
    notices: [],
    lines: [],
    recommended: null,
    error: null,
  };
}

export function emptyDebate(move: string): DebateView {
  return {
    move,
    title: "",
    status: "idle",
    backend: null,
    isolation: "off",
    round: 0,
    step: null,
    threads: {},
    score: null,
    breakdown: {},
    reason: null,
    started: null,
    ended: null,
  };
}

/** Marks everything that was running when the run stopped as idle, and the layer in which the run failed as failed. */
export function markStopped(view: RunView): RunView {
  const stop = <T extends { status: Status }>(all: Record<string, T>, status: Status): Record<string, T> =>
    Object.fromEntries(Object.entries(all).map(([key, it]) => [key, it.status === "running" ? { ...it, status } : it]));
  return {
    ...view,
    layers: stop(view.layers, view.error === null ? "idle" : "failed"),
    agents: stop(view.agents, "idle"),
    debates: stop(view.debates, "idle"),
  };
}
