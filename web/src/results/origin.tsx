import { ShieldAlert, ShieldCheck, TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import { isolationText } from "@/lib/isolation";
import type { Report } from "@/lib/report";

/** Number of failures that are listed. */
const MAX_FAILURES = 5;

/** Caveats about the result, shown first: failures, synthetic data, scripted model, missing isolation. */
export function Origin({ report }: { report: Report }): ReactElement {
  const { company, provider, isolation, warnings, failures = [] } = report.outcome;
  const ranked = [...report.ranking.recommended, ...report.ranking.other];
  const exposed = ranked.filter((it) => it.marks.includes("not_isolated"));
  const scripted = provider.kind === "scripted";
  const synthetic = company.source === "synthetic";
  return (
    <section aria-label="Basis of the result" className="space-y-2 text-sm">
      {failures.length > 0 && (
        <div role="note" className="rounded-xl border border-bad/40 bg-bad-soft px-4 py-3">
          <p>
            <b className="font-semibold">Incomplete.</b> Parts of the run failed; resume the run to try them again.
          </p>
          <ul className="mt-1 list-disc pl-5">
            {failures.slice(0, MAX_FAILURES).map((it) => (
              <li key={`${it.place} ${it.reason}`}>
                {it.place}: {it.reason}
              </li>
            ))}
            {failures.length > MAX_FAILURES && <li>and {failures.length - MAX_FAILURES} more</li>}
          </ul>
        </div>
      )}
      {(synthetic || scripted) && (
        <div className="flex gap-3 rounded-xl border border-warn/40 bg-warn-soft px-4 py-3">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
          <div>
            {synthetic && (
              <p>
                <b className="font-semibold">Synthetic data.</b> The company and all its figures are fictional. Nothing
                here describes the real {company.ticker}, and nothing is advice.
              </p>
            )}
            {scripted && (
              <p>
                <b className="font-semibold">Scripted model.</b> The answers were generated from a script, not by a
                language model. They show how a run works, not what a model would say.
              </p>
            )}
          </div>
        </div>
      )}
      {!synthetic && report.data_source && (
        <p className="rounded-xl border border-line bg-panel px-4 py-2.5">{report.data_source}</p>
      )}
      <p className="flex items-start gap-3 rounded-xl border border-line bg-panel px-4 py-2.5">
        {isolation.level !== "off" ? (
          <ShieldCheck aria-hidden className="mt-0.5 size-4 shrink-0 text-good" />
        ) : (
          <ShieldAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
        )}
        <span>
          {isolation.level !== "off"
            ? "Each debate ran in its own sandbox: "
            : exposed.length < ranked.length
              ? `Not isolated from the host: the debates about ${exposed.map((it) => it.move_id).join(", ")}. Sandboxes: `
              : "The debates were not isolated from the host: "}
          <b className="font-semibold">{isolation.backend}</b> ({isolationText(isolation.level)}).
        </span>
      </p>
      {[...company.warnings, ...warnings].map((it) => (
        <p key={it} className="rounded-xl border border-warn/40 bg-warn-soft px-4 py-2.5">
          {it}
        </p>
      ))}
    </section>
  );
}
