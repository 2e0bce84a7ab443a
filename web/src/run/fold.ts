/**
 * Folds a run's events into what the page shows.
 *
 * Events are numbered without gaps. One that was seen is left out, one that comes too early waits for those before it,
 * so the view is the same whatever way the events came: from the start, after a reload, over many connections.
 */

import type { RunEvent } from "@/lib/events";

import { KEPT, inWords } from "./lines";
import { type DebateView, type DebateStep, type Notice, type RunView, type Status, emptyDebate } from "./view";

/** Takes in events in any order, also ones that were seen before. */
export function fold(view: RunView, events: readonly RunEvent[]): RunView {
  const waiting = [...view.ahead, ...events].toSorted((a, b) => a.seq - b.seq);
  let next: RunView = { ...view, ahead: [] };
  for (const [idx, event] of waiting.entries()) {
    if (event.seq <= next.last) continue;
    if (event.seq > next.last + 1) {
      next.ahead = distinct(waiting.slice(idx));
      break;
    }
    next = take(next, event);
  }
  return next;
}

/** Takes in what the server has after the last event. What it leaves out does not exist, so nothing waits for it. */
export function heal(view: RunView, stored: readonly RunEvent[]): RunView {
  const first = stored.reduce((least, it) => Math.min(least, it.seq), Number.POSITIVE_INFINITY);
  const from = Number.isFinite(first) ? first : (view.ahead[0]?.seq ?? view.last + 1);
  return fold({ ...view, last: Math.max(view.last, from - 1) }, stored);
}

function distinct(sorted: RunEvent[]): RunEvent[] {
  return sorted.filter((it, idx) => it.seq !== sorted[idx - 1]?.seq);
}

function take(view: RunView, event: RunEvent): RunView {
  const line = inWords(event);
  const lines = line ? [line, ...view.lines].slice(0, KEPT) : view.lines;
  return { ...view, ...change(view, event), lines, last: event.seq };
}

/** What one event changes. An event of an unknown type changes nothing. */
function change(view: RunView, event: RunEvent): Partial<RunView> {
  switch (event.type) {
    case "layer_start":
      return layer(view, event.layer, { status: "running" });
    case "layer_complete":
      return layer(view, event.layer, { status: "done", artifacts: event.artifacts });
    case "agent_start":
      return agent(view, event.agent_id, { status: "running" });
    case "agent_complete":
      return agent(view, event.agent_id, { status: "done", outputs: event.outputs });
    case "agent_failed":
      return {
        ...agent(view, event.agent_id, { status: "failed", reason: event.reason }),
        ...notice(view, { seq: event.seq, kind: "failed", text: `${event.agent_id} failed: ${event.reason}` }),
      };
    case "sandbox_ready":
      return debate(view, event.move, {
        title: event.title,
        backend: event.backend,
        isolated: event.isolated,
        status: "running",
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
        }),
        // A run that went on has a score now for what had none.
        notices: view.notices.filter((it) => it.move !== event.move),
      };
    case "sandbox_skipped":
      return {
        ...debate(view, event.move, { status: "failed", step: null, reason: event.reason }),
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
        text: `Debates run without isolation (${event.backend}).`,
        detail: event.reason,
      });
    case "budget_warning":
      return notice(view, { seq: event.seq, kind: "budget", text: `${event.percent} % of the budget is spent.` });
    case "budget_exceeded":
      return notice(view, {
        seq: event.seq,
        kind: "budget",
        text: `The budget is spent, no new round is opened: ${event.reason}`,
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

function agent(
  view: RunView,
  id: string,
  it: { status: Status; outputs?: string[]; reason?: string },
): Partial<RunView> {
  const old = view.agents[id] ?? { status: "idle", outputs: [], reason: null };
  return { agents: { ...view.agents, [id]: { ...old, ...it } } };
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
  for (const [log, content] of Object.entries(event.said ?? {})) {
    threads[log] = [...(threads[log] ?? []), { round: event.round, role, content }];
  }
  return debate(view, event.move, {
    status: "running",
    round: event.round,
    step: STEPS[event.status] ?? null,
    threads,
  });
}
