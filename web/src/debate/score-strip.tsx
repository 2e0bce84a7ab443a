import type { ReactElement } from "react";

import type { MakerScore } from "@/lib/events";
import { makerColor } from "@/lib/people";
import type { Config } from "@/lib/types";
import { makerTotals } from "@/run/board";
import { Radar } from "@/results/radar";
import { Said } from "@/text/said";

/** What each decision maker gave, as a radar, a sum and a reason. */
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
              <Said text={score.reasoning} />
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
    json: "stood in JSON that had to be changed to fit",
    json_extracted: "were found in JSON within other text",
    regex: "were found by their labels in an answer of words",
    repaired: "come from a second call that put the answer right",
    default: "could not be read: neutral ones stand in for them",
  };
  return texts[source] ?? `come by “${source}”`;
}
