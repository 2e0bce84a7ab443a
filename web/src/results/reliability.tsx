import type { ReactElement, ReactNode } from "react";

import { percent } from "@/lib/format";
import { displayName } from "@/lib/people";
import type { Report } from "@/lib/report";
import type { Config } from "@/lib/types";

interface Props {
  report: Report;
  config: Config;
}

/** Reliability of the ranking. */
export function Reliability({ report, config }: Props): ReactElement {
  const { robustness, severity, compression, length_bias, tau, drift } = report;
  return (
    <div className="space-y-4">
      <p className="text-sm">
        <span className="text-dim">Recommendation: </span>
        <b className="font-semibold">{robustness.verdict}</b>
      </p>
      <Standings report={report} config={config} />
      <dl className="grid gap-x-8 gap-y-3 text-sm sm:grid-cols-2">
        {severity && (
          <Fact name="Severity of the scorers">
            {Object.entries(severity.scorers)
              .map(([id, it]) => `${displayName(config, id)} ${it >= 0 ? "+" : "−"}${Math.abs(it).toFixed(1)}`)
              .join(", ")}{" "}
            points per metric relative to the mean; noise of a total ±{severity.noise.toFixed(1)}
          </Fact>
        )}
        {compression && (
          <Fact name="Spread of totals">
            {compression.spread} points; {percent(compression.sevens_and_eights)} of all scores are 7 or 8
            {compression.unresolved && ". The scores are too close together to distinguish the moves."}
          </Fact>
        )}
        {length_bias !== null && (
          <Fact name="Debate length">correlation with the score: {length_bias.toFixed(2)} (0: none, 1: perfect)</Fact>
        )}
        {tau !== null && (
          <Fact name="Effect of the debates">
            {drift.filter((it) => it.before !== it.after).length} totals changed; agreement of the rankings before and
            after: {tau.toFixed(2)} (1: identical, −1: reversed)
          </Fact>
        )}
      </dl>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }): ReactElement {
  return (
    <div>
      <dt className="text-xs font-semibold text-dim">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Fraction of bootstrap samples in which each move is recommended. */
function Standings({ report, config }: Props): ReactElement {
  const shown = report.robustness.standings.filter((it) => it.top >= 0.005);
  return (
    <div>
      <p className="mb-1.5 text-xs font-semibold text-dim">
        Share of simulations in which the move is in the top {report.outcome.top_k}
      </p>
      <ul className="grid gap-x-8 gap-y-1 sm:grid-cols-2">
        {shown.map((it) => (
          <li key={it.move_id} className="flex items-center gap-2 text-sm">
            <span className="w-8 shrink-0 font-mono text-xs text-dim">{it.move_id}</span>
            <span aria-hidden className="h-1.5 flex-1 overflow-hidden rounded-full bg-sunk">
              <span className="block h-full rounded-full bg-accent" style={{ width: `${it.top * 100}%` }} />
            </span>
            <span className="w-12 text-right tabular-nums">{percent(it.top)}</span>
            <span className="hidden w-56 truncate text-xs text-warn lg:block">
              {it.depends_on.length > 0 &&
                `depends on ${it.depends_on.map((id) => displayName(config, id)).join(", ")}`}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
