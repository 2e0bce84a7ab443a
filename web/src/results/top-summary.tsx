import { ArrowDown } from "lucide-react";
import type { ReactElement } from "react";

import { percent } from "@/lib/format";
import type { Ranked, Report, Scored } from "@/lib/report";
import type { Run } from "@/lib/types";
import { ModelText } from "@/text/model-text";

import { OverlayRadar, type RadarSeries } from "./overlay-radar";

const LINES = [
  { color: "var(--accent)", dash: undefined },
  { color: "var(--dm-1)", dash: "7 4" },
  { color: "var(--good)", dash: "2 4" },
] as const;

/** Returns the mean of each metric over all decision makers. */
function meanScores({ scores_by_agent }: Scored, metrics: readonly string[]): number[] {
  const scores = Object.values(scores_by_agent);
  return metrics.map(
    (it) => scores.reduce((sum, score) => sum + Number(score[it] ?? 0), 0) / Math.max(1, scores.length),
  );
}

/** The recommended moves at a glance, with one radar chart for all of them. */
export function TopSummary({ run, report }: { run: Run; report: Report }): ReactElement {
  const { outcome, ranking, robustness } = report;
  const { metrics } = run.config;
  const series = ranking.recommended.flatMap((it, idx): RadarSeries[] => {
    const score = outcome.scores.find((one) => one.move_id === it.move_id);
    const line = LINES[idx % LINES.length]!;
    return score
      ? [
          {
            name: `${it.rank}. ${it.move_id}`,
            ...line,
            values: meanScores(
              score,
              metrics.map(({ id }) => id),
            ),
          },
        ]
      : [];
  });
  return (
    <section
      aria-label="Summary of the recommended moves"
      className="grid grid-cols-1 items-center gap-x-6 gap-y-2 rounded-xl border border-line bg-panel p-4 shadow-(--shadow) lg:grid-cols-[minmax(0,1fr)_24rem]"
    >
      <div>
        <ol className="divide-y divide-line">
          {ranking.recommended.map((it, idx) => (
            <Entry key={it.move_id} report={report} ranked={it} line={LINES[idx % LINES.length]!} />
          ))}
        </ol>
        <p className="mt-2 border-t border-line pt-2 text-[13px] text-dim">
          Confidence: <span className="text-ink">{robustness.verdict}</span>
        </p>
      </div>
      <figure>
        <OverlayRadar axes={metrics.map((it) => it.name)} series={series} />
        <figcaption className="text-center text-xs text-dim">
          Mean score of the {run.config.decision_makers.length} decision makers per metric, from 0 to 10
        </figcaption>
      </figure>
    </section>
  );
}

interface EntryProps {
  report: Report;
  ranked: Ranked;
  line: (typeof LINES)[number];
}

function Entry({ report, ranked, line }: EntryProps): ReactElement | null {
  const move = report.outcome.moves.find((it) => it.move_id === ranked.move_id);
  const standing = report.robustness.standings.find((it) => it.move_id === ranked.move_id);
  const flags = report.flags.filter((it) => it.place.document === ranked.move_id).length;
  if (!move) return null;
  return (
    <li className="grid grid-cols-[1.75rem_minmax(0,1fr)_auto] gap-x-3 py-2.5 first:pt-0">
      <span className="flex flex-col items-center gap-1.5 pt-0.5">
        <b className="text-lg leading-none">{ranked.rank}</b>
        <svg aria-hidden viewBox="0 0 24 4" className="w-6">
          <line x1={0} x2={24} y1={2} y2={2} stroke={line.color} strokeWidth={3} strokeDasharray={line.dash} />
        </svg>
      </span>
      <div className="min-w-0">
        <h3 className="leading-snug font-semibold">
          <a href={`#top-${move.move_id}`} className="hover:underline">
            {move.title} <ArrowDown aria-hidden className="inline size-3.5 text-dim" />
          </a>
        </h3>
        <p className="line-clamp-2 text-[13px]">
          <ModelText text={move.thesis} />
        </p>
        <p className="mt-0.5 text-xs text-dim">
          <span className="font-mono">{move.move_id}</span> · {move.persona} · {move.risk_level} risk
          {standing && ` · in the top ${report.outcome.top_k} in ${percent(standing.top)} of simulations`}
          {flags > 0 && ` · ${flags} ${flags === 1 ? "flag" : "flags"}`}
        </p>
      </div>
      <p className="text-right leading-tight">
        <b className="text-xl tabular-nums">{ranked.total_score}</b>
        <span className="block text-xs text-dim">of {report.outcome.best_score}</span>
      </p>
    </li>
  );
}
