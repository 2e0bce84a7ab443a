import { ShieldAlert, ShieldCheck, TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import type { Report } from "@/lib/report";

/** What the result rests on, said before anything else: invented data, a scripted model, debates without isolation. */
export function Origin({ report }: { report: Report }): ReactElement {
  const { company, provider, isolation, warnings } = report.outcome;
  const scripted = provider.kind === "scripted";
  const synthetic = company.source === "synthetic";
  return (
    <section aria-label="What this rests on" className="space-y-2 text-sm">
      {(synthetic || scripted) && (
        <div className="flex gap-3 rounded-xl border border-warn/40 bg-warn-soft px-4 py-3">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
          <div>
            {synthetic && (
              <p>
                <b className="font-semibold">Invented data.</b> The company and every number are made up from the
                ticker. Nothing here is about the real {company.ticker}, and nothing here is advice.
              </p>
            )}
            {scripted && (
              <p>
                <b className="font-semibold">Scripted model.</b> No language model spoke: a program put the answers
                together. They show how a run works, not what a model would say.
              </p>
            )}
          </div>
        </div>
      )}
      <p className="flex items-start gap-3 rounded-xl border border-line bg-panel px-4 py-2.5">
        {isolation.isolated ? (
          <ShieldCheck aria-hidden className="mt-0.5 size-4 shrink-0 text-good" />
        ) : (
          <ShieldAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
        )}
        <span>
          {isolation.isolated
            ? "Each debate ran in a sandbox of its own: "
            : "The debates were not kept apart from the host: "}
          <b className="font-semibold">{isolation.backend}</b>.
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
