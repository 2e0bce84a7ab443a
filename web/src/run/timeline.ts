/** Rows of the timeline: who worked when, and at what cost. */

import type { Report } from "@/lib/report";
import { writers } from "@/lib/people";
import type { Run, Spending } from "@/lib/types";

import { titleOf } from "./titles";
import type { Period, RunView, Status } from "./view";

export interface TimelineRow {
  id: string;
  name: string;
  kind: "agent" | "debate";
  status: Status;
  started: number;
  /** Null while in progress. */
  ended: number | null;
  /** Null until the run is complete. */
  spending: Spending | null;
}

/** Returns the agents and debates that have started, in order of their start. */
export function timelineRows(run: Run, view: RunView, moves: readonly string[], report: Report | null): TimelineRow[] {
  const row = (
    it: Pick<TimelineRow, "id" | "name" | "kind">,
    period: (Period & { status: Status }) | undefined,
    spending: Spending[] | undefined,
  ): TimelineRow[] => {
    if (!period || period.started === null) return [];
    const { started, ended, status } = period;
    return [{ ...it, status, started, ended, spending: spending?.find(({ name }) => name === it.id) ?? null }];
  };
  const agents = writers(run.config).flatMap(({ id, name }) =>
    row({ id, name, kind: "agent" }, view.agents[id], report?.outcome.spending),
  );
  const debates = moves.flatMap((id) =>
    row({ id, name: titleOf(id, run, view), kind: "debate" }, view.debates[id], report?.outcome.spending_by_move),
  );
  return [...agents, ...debates].toSorted((a, b) => a.started - b.started);
}
