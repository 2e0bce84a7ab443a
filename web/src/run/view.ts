/** What the page knows of a run from its events. */

import type { MakerScore, RunEvent } from "@/lib/events";
import type { Turn } from "@/lib/report";

export type Status = "idle" | "running" | "done" | "failed";

interface AgentView {
  status: Status;
  outputs: string[];
  reason: string | null;
}

interface LayerView {
  status: Status;
  artifacts: string[];
}

/** Which node of the debate's graph is at work. */
export type DebateStep = "critic" | "makers" | "answered" | null;

export interface DebateView {
  move: string;
  title: string;
  status: Status;
  backend: string | null;
  isolated: boolean;
  /** The round that is being debated, from 1. */
  round: number;
  step: DebateStep;
  /** What was said, by the thread's name. Decision makers are not named in events: they are `maker`. */
  threads: Record<string, Turn[]>;
  score: number | null;
  breakdown: Record<string, MakerScore>;
  /** Why it has no score. */
  reason: string | null;
}

export interface Notice {
  seq: number;
  kind: "degraded" | "skipped" | "budget" | "failed" | "error";
  text: string;
  /** Why, where that is long. */
  detail?: string;
  /** The move that it is about. */
  move?: string;
}

/** Something that happened, in words. */
export interface Line {
  seq: number;
  move: string | null;
  text: string;
}

export interface RunView {
  /** The last event that was taken in. */
  last: number;
  /** Events that came before one that is still missing. */
  ahead: RunEvent[];
  layers: Record<string, LayerView>;
  agents: Record<string, AgentView>;
  debates: Record<string, DebateView>;
  notices: Notice[];
  /** What happened last, newest first. */
  lines: Line[];
  recommended: string[] | null;
  error: string | null;
}

export function emptyView(): RunView {
  return {
    last: 0,
    ahead: [],
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
    isolated: false,
    round: 0,
    step: null,
    threads: {},
    score: null,
    breakdown: {},
    reason: null,
  };
}

/** What was under way when the run stopped is so no more; the layer that the run failed in has failed. */
export function atRest(view: RunView): RunView {
  const stop = <T extends { status: Status }>(all: Record<string, T>, status: Status): Record<string, T> =>
    Object.fromEntries(Object.entries(all).map(([key, it]) => [key, it.status === "running" ? { ...it, status } : it]));
  return {
    ...view,
    layers: stop(view.layers, view.error === null ? "idle" : "failed"),
    agents: stop(view.agents, "idle"),
    debates: stop(view.debates, "idle"),
  };
}
