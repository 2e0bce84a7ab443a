import { MessagesSquare } from "lucide-react";
import type { ReactElement } from "react";

import { percent } from "@/lib/format";
import { useMedia } from "@/lib/media";
import { displayName } from "@/lib/people";
import type { Ranked, Report } from "@/lib/report";
import type { Run } from "@/lib/types";
import { ScoreStrip } from "@/debate/score-strip";
import { ModelText } from "@/text/model-text";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";

import { Flags } from "./flags";
import { Caveats } from "./caveats";
import { MoveText } from "./move-text";

interface Props {
  run: Run;
  report: Report;
  ranked: Ranked;
  onDebate: (move: string) => void;
}

/** A recommended move with its scores, reasoning and caveats. */
export function TopMove({ run, report, ranked, onDebate }: Props): ReactElement | null {
  const move = report.outcome.moves.find((it) => it.move_id === ranked.move_id);
  const score = report.outcome.scores.find((it) => it.move_id === ranked.move_id);
  const standing = report.robustness.standings.find((it) => it.move_id === ranked.move_id);
  const narrow = useMedia("(max-width: 767px)");
  if (!move || !score) return null;
  const scores = <ScoreStrip scores={score.scores_by_agent} config={run.config} />;
  return (
    <article
      aria-labelledby={`top-${move.move_id}`}
      className="rounded-xl border border-line bg-panel shadow-(--shadow)"
    >
      <div className="flex gap-4 p-4 sm:p-5">
        <div
          className="hidden size-11 shrink-0 place-items-center rounded-lg bg-accent text-xl font-semibold text-on-accent sm:grid"
          aria-hidden
        >
          {ranked.rank}
        </div>
        <div className="min-w-0 flex-1">
          <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-1">
            <div className="min-w-0 flex-1 basis-64">
              <p className="text-[13px] text-dim">
                Rank {ranked.rank} · <span className="font-mono">{move.move_id}</span> · {move.persona} ·{" "}
                {move.risk_level} risk
              </p>
              <h3 id={`top-${move.move_id}`} className="text-lg leading-snug font-semibold">
                {move.title}
              </h3>
            </div>
            <p className="text-right leading-none">
              <span className="text-3xl font-semibold tabular-nums">{ranked.total_score}</span>
              <span className="text-dim"> / {report.outcome.best_score}</span>
            </p>
          </div>
          <p className="mt-2 max-w-[90ch] text-sm">
            <ModelText text={move.thesis} />
          </p>
          <p className="mt-2.5 flex flex-wrap gap-1.5">
            {standing && (
              <Badge tone={standing.top > 0.9 ? "good" : "warn"}>
                in the top {report.outcome.top_k} in {percent(standing.top)} of simulations
              </Badge>
            )}
            {standing?.depends_on.map((it) => (
              <Badge key={it} tone="warn">
                depends on {displayName(run.config, it)}
              </Badge>
            ))}
            <Badge>lowest total {ranked.lowest}</Badge>
            <Badge>spread {ranked.spread}</Badge>
            <Caveats marks={ranked.marks} />
          </p>
          {narrow ? (
            <details className="mt-3 border-t border-line pt-3">
              <summary className="text-[13px] font-medium text-accent">Scores and reasons</summary>
              {scores}
            </details>
          ) : (
            scores
          )}
        </div>
      </div>
      <div className="flex flex-wrap items-start gap-2 border-t border-line px-4 py-3 sm:px-5">
        <Button aria-label={`Read the debate of ${move.move_id}`} onClick={() => onDebate(move.move_id)}>
          <MessagesSquare aria-hidden /> Read the debate
        </Button>
        <details className="group min-w-0 flex-1 basis-full sm:basis-auto">
          <summary className="inline-flex h-8 items-center rounded-md border border-line px-2.5 text-[13px] font-medium hover:bg-sunk">
            Full move and flags ({report.flags.filter((it) => it.place.document === move.move_id).length})
          </summary>
          <div className="mt-3 space-y-4">
            <Flags flags={report.flags.filter((it) => it.place.document === move.move_id)} config={run.config} />
            <MoveText move={move} />
          </div>
        </details>
      </div>
    </article>
  );
}
