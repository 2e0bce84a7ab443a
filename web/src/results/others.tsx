import { ChevronRight } from "lucide-react";
import type { ReactElement } from "react";

import { makerTotals } from "@/run/board";
import { makerColor, shortName } from "@/lib/people";
import type { Ranked, Report } from "@/lib/report";
import type { Run } from "@/lib/types";
import { ScoreStrip } from "@/debate/score-strip";
import { ModelText } from "@/text/model-text";
import { Button } from "@/ui/button";

import { Flags } from "./flags";
import { Caveats } from "./caveats";
import { MoveText } from "./move-text";

interface Props {
  run: Run;
  report: Report;
  onDebate: (move: string) => void;
}

/** The other moves as expandable rows. */
export function Others({ run, report, onDebate }: Props): ReactElement {
  return (
    <ol className="divide-y divide-line">
      {report.ranking.other.map((it) => (
        <Other key={it.move_id} run={run} report={report} ranked={it} onDebate={onDebate} />
      ))}
    </ol>
  );
}

function Other({ run, report, ranked, onDebate }: Props & { ranked: Ranked }): ReactElement | null {
  const move = report.outcome.moves.find((it) => it.move_id === ranked.move_id);
  const score = report.outcome.scores.find((it) => it.move_id === ranked.move_id);
  if (!move || !score) return null;
  const totals = makerTotals(
    score.scores_by_agent,
    run.config.metrics.map((it) => it.id),
  );
  const flags = report.flags.filter((it) => it.place.document === move.move_id);
  return (
    <li>
      <details className="group">
        <summary className="grid grid-cols-[1rem_1.5rem_minmax(0,1fr)_auto] items-center gap-2.5 px-4 py-2 text-sm hover:bg-sunk sm:grid-cols-[1rem_1.5rem_2.5rem_minmax(0,1fr)_auto] lg:grid-cols-[1rem_1.5rem_2.5rem_minmax(0,1fr)_17rem_auto]">
          <ChevronRight aria-hidden className="size-4 text-dim transition-transform group-open:rotate-90" />
          <span className="text-right font-semibold tabular-nums">{ranked.rank}</span>
          <span className="hidden font-mono text-xs text-dim sm:block">{move.move_id}</span>
          <span className="min-w-0">
            <span className="block leading-snug">{move.title}</span>
            <span className="block text-xs text-dim">
              {move.persona} · {move.risk_level} risk
              {flags.length > 0 && ` · ${flags.length} ${flags.length === 1 ? "flag" : "flags"}`}
            </span>
          </span>
          <span className="hidden justify-end gap-3 text-xs tabular-nums lg:flex">
            {run.config.decision_makers.map((it, idx) => (
              <span key={it.id} title={it.name} style={{ color: makerColor(idx) }}>
                {shortName(it)} {totals[it.id]}
              </span>
            ))}
          </span>
          <b className="min-w-8 text-right tabular-nums">{ranked.total_score}</b>
        </summary>
        <div className="space-y-4 border-t border-line bg-sunk/40 px-4 py-4 sm:pl-16">
          <p className="max-w-prose text-sm">
            <ModelText text={move.thesis} />
          </p>
          <p className="flex flex-wrap gap-1.5">
            <Caveats marks={ranked.marks} />
          </p>
          <ScoreStrip scores={score.scores_by_agent} config={run.config} />
          <Flags flags={flags} config={run.config} />
          <MoveText move={move} />
          <Button aria-label={`Read the debate of ${move.move_id}`} onClick={() => onDebate(move.move_id)}>
            Read the debate
          </Button>
        </div>
      </details>
    </li>
  );
}
