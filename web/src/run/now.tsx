import type { ReactElement } from "react";

import { writers } from "@/lib/people";
import type { Run } from "@/lib/types";
import { tokens } from "@/text/tokens";
import { WorkIcon } from "@/ui/status";

import type { DebateView, RunView } from "./view";

interface Props {
  run: Run;
  view: RunView;
  onDebate: (move: string) => void;
}

/** Agents and debates in progress, with the latest turn. */
export function Now({ run, view, onDebate }: Props): ReactElement {
  const debates = Object.values(view.debates).filter((it) => it.status === "running");
  const agents = writers(run.config).filter((it) => view.agents[it.id]?.status === "running");
  if (debates.length === 0 && agents.length === 0) {
    return <p className="py-6 text-center text-sm text-dim">{silence(run)}</p>;
  }
  return (
    <ul className="grid grid-cols-1 gap-3 lg:grid-cols-2">
      {agents.map((it) => (
        <li key={it.id} className="flex items-center gap-2 rounded-lg border border-line px-3 py-2.5 text-sm">
          <WorkIcon status="running" /> {it.name}
          <span className="ml-auto text-xs text-dim">writing</span>
        </li>
      ))}
      {debates.map((it) => (
        <li key={it.move}>
          <button
            type="button"
            onClick={() => onDebate(it.move)}
            className="flex h-full w-full flex-col gap-1.5 rounded-lg border border-line px-3 py-2.5 text-left hover:border-accent"
          >
            <span className="flex w-full items-center gap-2 text-[13px] font-medium">
              <WorkIcon status="running" />
              <span className="font-mono text-xs text-dim">{it.move}</span>
              <span className="min-w-0 flex-1 truncate">{it.title}</span>
              <span className="text-xs whitespace-nowrap text-dim tabular-nums">
                round {it.round || 1} / {run.settings.rounds}
              </span>
            </span>
            <LastWord debate={it} run={run} />
          </button>
        </li>
      ))}
    </ul>
  );
}

function LastWord({ debate, run }: { debate: DebateView; run: Run }): ReactElement {
  const turns = debate.threads["i1"];
  const turn = turns?.at(-1);
  if (!turn) return <span className="text-[13px] text-dim">The critic is reading the move.</span>;
  const critic = turn.role === "critic";
  return (
    <span className="line-clamp-3 text-[13px] leading-normal text-dim">
      <b className={critic ? "font-semibold text-critic" : "font-semibold text-dm-0"}>
        {critic ? run.config.critic.name : run.config.decision_makers[0]?.name}:
      </b>{" "}
      {tokens(turn.content)
        .map((it) => (it.kind === "text" ? it.text : it.id))
        .join("")}
    </span>
  );
}

function silence(run: Run): string {
  const texts: Partial<Record<Run["status"], string>> = {
    queued: "The run is queued.",
    running: "The run is starting.",
    waiting: "The run is waiting for a review of the moves.",
    complete: "The run is complete.",
    cancelled: "The run was cancelled. Completed work is saved.",
    error: "The run failed. Completed work is saved.",
  };
  return texts[run.status] ?? "";
}
