import { motion, useReducedMotion } from "motion/react";
import type { ReactElement } from "react";

import { cn } from "@/lib/cn";
import { makerColor } from "@/lib/people";
import type { Run } from "@/lib/types";
import { STATUS_WORDS, WorkIcon } from "@/ui/status";

import { type BoardRow, board, makerTotals } from "./board";
import { titleOf } from "./titles";
import { type RunView, emptyDebate } from "./view";

interface Props {
  run: Run;
  view: RunView;
  moves: string[];
  onOpen: (move: string) => void;
}

/** Moves by current score; a move animates to its position when it is scored. */
export function Leaderboard({ run, view, moves, onOpen }: Props): ReactElement {
  const still = useReducedMotion();
  const metrics = run.config.metrics.map((it) => it.id);
  const places = board(
    moves.map((it) => view.debates[it] ?? emptyDebate(it)),
    metrics,
  );
  const best = run.config.metrics.length * run.config.decision_makers.length * 10;
  return (
    <ol className="divide-y divide-line">
      {places.map((it) => (
        <motion.li
          key={it.debate.move}
          layout={still ? false : "position"}
          transition={{ type: "spring", stiffness: 260, damping: 28 }}
          data-move={it.debate.move}
        >
          <Row
            place={it}
            title={titleOf(it.debate.move, run, view)}
            run={run}
            best={best}
            metrics={metrics}
            onOpen={onOpen}
          />
        </motion.li>
      ))}
    </ol>
  );
}

interface RowProps {
  place: BoardRow;
  /** Title of the move, or empty before it is proposed. */
  title: string;
  run: Run;
  best: number;
  metrics: string[];
  onOpen: (move: string) => void;
}

function Row({ place: { rank, debate }, title, run, best, metrics, onOpen }: RowProps): ReactElement {
  const totals = makerTotals(debate.breakdown, metrics);
  const shown = title || (run.status === "complete" ? "not debated" : "not proposed yet");
  const state =
    debate.score !== null
      ? `rank ${rank}, ${debate.score} of ${best} points`
      : debate.status === "running"
        ? `round ${debate.round || 1} of ${run.settings.rounds}`
        : STATUS_WORDS[debate.status];
  return (
    <button
      type="button"
      onClick={() => onOpen(debate.move)}
      aria-label={`${rank ?? ""} ${debate.move} ${shown} ${debate.score ?? ""}: ${state}. Open the debate.`.trim()}
      className={cn(
        "grid w-full grid-cols-[1.5rem_2rem_minmax(0,1fr)_auto] items-center gap-2 px-4 py-1.5 text-left hover:bg-sunk",
        rank !== null && rank <= run.config.top_k && "bg-accent-soft/50",
      )}
    >
      <span className="text-right text-sm font-semibold tabular-nums">{rank ?? ""}</span>{" "}
      <span className="font-mono text-xs text-dim">{debate.move}</span>{" "}
      <span className="min-w-0">
        <span className="block truncate text-[13px] leading-5">{shown}</span>
        <span className="mt-0.5 flex h-1 overflow-hidden rounded-full bg-sunk">
          {debate.score !== null
            ? run.config.decision_makers.map((it, idx) => (
                <span
                  key={it.id}
                  className="h-full transition-[width] duration-500"
                  style={{ width: `${((totals[it.id] ?? 0) / best) * 100}%`, background: makerColor(idx) }}
                />
              ))
            : debate.status === "running" && (
                <span
                  className="h-full rounded-full bg-edge transition-[width] duration-500"
                  style={{ width: `${(debate.round / run.settings.rounds) * 100}%` }}
                />
              )}
        </span>
      </span>{" "}
      <span className="flex min-w-9 items-center justify-end text-sm font-semibold tabular-nums">
        {debate.score ?? <WorkIcon status={debate.status} />}
      </span>
    </button>
  );
}
