/**
 * Folds the events of a run into its view. Events are numbered without gaps; duplicates are ignored, and an event that
 * arrives early waits for its predecessors. The view therefore does not depend on how the events arrived.
 */

import type { RunEvent } from "@/lib/events";
import { levelText } from "@/lib/isolation";

import { MAX_LINES, describeEvent } from "./lines";
import { type DebateView, type DebateStep, type Notice, type RunView, type Status, emptyDebate } from "./view";

/** Applies events in any order, including duplicates. */
export function fold(view: RunView, events: readonly RunEvent[]): RunView {
  const waiting = [...view.pending, ...events].toSorted((a, b) => a.seq - b.seq);
  let next: RunView = { ...view, pending: [] };
  for (const [idx, event] of waiting.entries()) {
    if (event.seq <= next.last) continue;
    if (event.seq > next.last + 1) {
      next.pending = distinct(waiting.slice(idx));
      break;
    }
    next = apply(next, event);
  }
  return next;
}

/**
 * Applies the stored events that follow the last applied one. A sequence number that the server has not stored is
 * skipped.
 */
export function fillGap(view: RunView, stored: readonly RunEvent[]): RunView {
  const first = stored.reduce((least, it) => Math.min(least, it.seq), Number.POSITIVE_INFINITY);
  const from = Number.isFinite(first) ? first : (view.pending[0]?.seq ?? view.last + 1);
  return fold({ ...view, last: Math.max(view.last, from - 1) }, stored);
}

function distinct(sorted: RunEvent[]): RunEvent[] {
  return sorted.filter((it, idx) => it.seq !== sorted[idx - 1]?.seq);
}

function apply(view: RunView, event: RunEvent): RunView {
  const line = describeEvent(event);
  const lines = line ? [line, ...view.lines].slice(0, MAX_LINES) : view.lines;
  return { ...view, ...change(view, event), lines, last: event.seq };
}

/** Returns the changes made by one event; none for an unknown type. */
function change(view: RunView, event: RunEvent): Partial<RunView> {
  switch (event.type) {
    case "layer_start":
      return layer(view, event.layer, { status: "running" });
    case "layer_complete":
      return layer(view, event.layer, {
        status: event.status === "incomplete" ? "failed" : "done",
        artifacts: event.artifacts,
      });
    case "agent_start":
      return agent(view, event.agent_id, { status: "running", started: timeOf(event) });
    case "agent_complete":
      return agent(view, event.agent_id, { status: "done", outputs: event.outputs, ended: timeOf(event) });
    case "agent_failed":
      return {
        ...agent(view, event.agent_id, { status: "failed", reason: event.reason, ended: timeOf(event) }),
        ...notice(view, { seq: event.seq, kind: "failed", text: `${event.agent_id} failed: ${event.reason}` }),
      };
    case "sandbox_ready":
      return debate(view, event.move, {
        title: event.title,
        backend: event.backend,
        isolation: event.isolation,
        status: "running",
        started: view.debates[event.move]?.started ?? timeOf(event),
      });
    case "sandbox_round":
      return round(view, event);
    case "sandbox_scored":
      return {
        ...debate(view, event.move, {
          score: event.score,
          breakdown: event.breakdown,
          status: "done",
          step: null,
          reason: null,
          ended: timeOf(event),
        }),
        // A resumed run may score a move that was skipped before.
        notices: view.notices.filter((it) => it.kind !== "skipped" || it.move !== event.move),
      };
    case "sandbox_skipped":
      return {
        ...debate(view, event.move, { status: "failed", step: null, reason: event.reason, ended: timeOf(event) }),
        ...notice(view, {
          seq: event.seq,
          kind: "skipped",
          text: `${event.move} has no score: ${event.reason}`,
          move: event.move,
        }),
      };
    case "sandbox_degraded":
      return notice(view, {
        seq: event.seq,
        kind: "degraded",
        text: `${event.move === undefined ? "Debates run" : `${event.move} runs`} with ${event.backend} (${levelText(event.isolation)}).`,
        detail: event.reason,
        ...(event.move !== undefined && { move: event.move }),
      });
    case "budget_warning":
      return notice(view, { seq: event.seq, kind: "budget", text: `${event.percent} % of the budget is used.` });
    case "budget_exceeded":
      return notice(view, {
        seq: event.seq,
        kind: "budget",
        text: `The budget is exhausted, no further rounds are started: ${event.reason}`,
      });
    case "pipeline_complete":
      return { recommended: event.recommended, error: null };
    case "pipeline_error":
      return { error: event.message, ...notice(view, { seq: event.seq, kind: "error", text: event.message }) };
    default:
      return {};
  }
}

function layer(view: RunView, id: string | number, it: { status: Status; artifacts?: string[] }): Partial<RunView> {
  const old = view.layers[id] ?? { status: "idle", artifacts: [] };
  return { layers: { ...view.layers, [id]: { ...old, ...it } } };
}

function agent(view: RunView, id: string, it: Partial<RunView["agents"][string]>): Partial<RunView> {
  const old = view.agents[id] ?? { status: "idle", outputs: [], reason: null, started: null, ended: null };
  return { agents: { ...view.agents, [id]: { ...old, ...it } } };
}

function timeOf(event: RunEvent): number | null {
  return Date.parse(event.at ?? "") || null;
}

function debate(view: RunView, id: string, it: Partial<DebateView>): Partial<RunView> {
  const old = view.debates[id] ?? emptyDebate(id);
  return { debates: { ...view.debates, [id]: { ...old, ...it } } };
}

function notice(view: RunView, it: Notice): Partial<RunView> {
  return { notices: [...view.notices, it] };
}

const STEPS: Record<string, DebateStep> = {
  critic_responding: "critic",
  critic_responded: "makers",
  dm_responding: "makers",
  dm_responded: "answered",
};

function round(view: RunView, event: Extract<RunEvent, { type: "sandbox_round" }>): Partial<RunView> {
  const old = view.debates[event.move] ?? emptyDebate(event.move);
  const role = event.status.startsWith("critic") ? "critic" : "maker";
  const threads = { ...old.threads };
  for (const [log, content] of Object.entries(event.texts ?? {})) {
    threads[log] = [...(threads[log] ?? []), { round: event.round, role, content }];
  }
  return debate(view, event.move, {
    status: "running",
    round: event.round,
    step: STEPS[event.status] ?? null,
    threads,
  });
}
