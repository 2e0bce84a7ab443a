/** Derives the state of stages and edges from the state of a run. */

import type { Config } from "@/lib/types";
import type { RunView, Status } from "@/run/view";

import type { StageId } from "./scene";

interface StageState {
  status: Status;
  /** Fraction of completed work, from 0 to 1. */
  share: number;
  /** Short description of the progress. */
  note: string;
}

/**
 * Returns all moves of a run. Before the analysts have delivered, these are the planned moves; afterwards, the proposed
 * ones that the reviewer kept or added.
 */
export function movesOf(config: Config, view: RunView): string[] {
  const made = view.layers["2"];
  const proposed = (made?.artifacts ?? []).map((it) => it.replace(/\.md$/, ""));
  const planned = proposed.length > 0 ? proposed : config.analysts.flatMap((it) => it.moves);
  const added = Object.keys(view.debates).filter((it) => !planned.includes(it));
  return [...planned, ...added];
}

export function stageState(stage: StageId, config: Config, view: RunView, moves: readonly string[]): StageState {
  if (stage === "rank") {
    const done = view.recommended !== null;
    return { status: done ? "done" : "idle", share: done ? 1 : 0, note: `best ${config.top_k} of ${moves.length}` };
  }
  if (stage === "sandbox") return debatesState(config, view, moves);
  const members = { "0": config.synthesizers, "1": config.inferences, "2": config.analysts }[stage];
  const states = members.map((it) => view.agents[it.id]?.status ?? "idle");
  const done = states.filter((it) => it === "done").length;
  const failed = states.filter((it) => it === "failed").length;
  const layer = view.layers[stage]?.status ?? "idle";
  // A layer in which an agent failed counts as failed, and so does one that stopped midway.
  const halted = layer === "running" && (view.error !== null || failed === members.length);
  return {
    status: halted ? "failed" : layer,
    share: layer === "done" ? 1 : (done + failed) / Math.max(1, members.length),
    note: failed > 0 ? `${done} done, ${failed} failed` : `${done} of ${members.length} agents`,
  };
}

function debatesState(config: Config, view: RunView, moves: readonly string[]): StageState {
  const debates = moves.map((it) => view.debates[it]);
  const ended = debates.filter((it) => it?.status === "done" || it?.status === "failed").length;
  const rounds = debates.reduce((sum, it) => {
    if (!it) return sum;
    return sum + (it.status === "done" || it.status === "failed" ? 1 : Math.max(0, it.round - 1) / config.rounds);
  }, 0);
  const layer = view.layers["sandbox"]?.status ?? "idle";
  return {
    status: layer === "running" && view.error !== null ? "failed" : layer,
    share: layer === "done" ? 1 : rounds / Math.max(1, moves.length),
    note: `${ended} of ${moves.length} debated`,
  };
}

/** Whether work flows along an edge now, has flowed, or has not yet. */
export function arrowState(from: Status, to: Status): "live" | "done" | "idle" {
  if (to === "running") return "live";
  return from === "done" && to !== "idle" ? "done" : "idle";
}
