import type { ReactElement } from "react";

import type { MakerScore } from "@/lib/events";
import { makerColor } from "@/lib/people";
import type { Config } from "@/lib/types";
import { makerTotals } from "@/run/board";
import { Radar } from "@/results/radar";
import { ModelText } from "@/text/model-text";

/** The scores of each decision maker: radar chart, total and reasoning. */
export function ScoreStrip({ scores, config }: { scores: Record<string, MakerScore>; config: Config }): ReactElement {
  const metrics = config.metrics.map((it) => it.id);
  const totals = makerTotals(scores, metrics);
  return (
    <ul className="mt-4 grid gap-4 border-t border-line pt-4 md:grid-cols-3">
      {config.decision_makers.map((it, idx) => {
        const score = scores[it.id];
        if (!score) return null;
        const color = makerColor(idx);
        return (
          <li key={it.id} className="min-w-0">
            <p className="flex items-baseline justify-between gap-2 text-[13px] font-semibold">
              <span style={{ color }}>
                {it.name} ({it.id})
              </span>
              <span className="tabular-nums">
                {totals[it.id]}
                <span className="font-normal text-dim"> / {metrics.length * 10}</span>
              </span>
            </p>
            <Radar
              label={it.name}
              color={color}
              axes={config.metrics.map(({ id, name }) => ({ name, value: Number(score[id] ?? 0) }))}
            />
            <p className="text-[13px] leading-normal text-dim">
              <ModelText text={score.reasoning} />
            </p>
            {score.score_source && score.score_source !== "schema" && (
              <p className="mt-1 text-xs text-warn">Scores {sourceText(score.score_source)}</p>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function sourceText(source: string): string {
  const texts: Record<string, string> = {
    json: "were corrected to fit the expected format",
    json_extracted: "were extracted from JSON within other text",
    regex: "were extracted from a text answer by their labels",
    repaired: "were corrected by the model in a second call",
    default: "could not be read and were set to neutral values",
  };
  return texts[source] ?? `were read as “${source}”`;
}
