import { TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import { isolationText } from "@/lib/isolation";
import { placeWithNames } from "@/lib/people";
import type { Report } from "@/lib/report";
import type { Config } from "@/lib/types";

/** Number of failures that are listed. */
const MAX_FAILURES = 5;

/** Caveats about the result in one banner: failures, synthetic data, scripted model, missing isolation, warnings. */
export function Origin({ report, config }: { report: Report; config: Config }): ReactElement {
  const { company, provider, isolation, warnings, failures = [] } = report.outcome;
  const scripted = provider.kind === "scripted";
  const synthetic = company.source === "synthetic";
  const sandbox = `${isolation.backend} (${isolationText(isolation)})`;
  // Reports of older versions have no notice.
  const isolationNotice =
    report.isolation_notice ?? (isolation.level === "off" ? `The debates ran in ${sandbox}.` : null);
  const caveats = [
    ...(synthetic
      ? [
          [
            "Synthetic data.",
            `The company and all its figures are fictional; nothing describes the real ${company.ticker}.`,
          ],
        ]
      : []),
    ...(scripted ? [["Scripted model.", "The answers come from a script, not from a language model."]] : []),
    ...(isolationNotice === null ? [] : [["Isolation.", isolationNotice]]),
    ...repeated([...company.warnings, ...warnings]).map(([text, times]) => [times > 1 ? `${times} times:` : "", text]),
  ] as [string, string][];
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
                {placeWithNames(config, it.place)}: {it.reason}
              </li>
            ))}
            {failures.length > MAX_FAILURES && <li>and {failures.length - MAX_FAILURES} more</li>}
          </ul>
        </div>
      )}
      {caveats.length > 0 && (
        <div className="flex gap-3 rounded-xl border border-warn/40 bg-warn-soft px-4 py-2.5 text-[13px]">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
          <ul>
            {caveats.map(([name, text]) => (
              <li key={`${name} ${text}`}>
                <b className="font-semibold">{name}</b> {text}
              </li>
            ))}
          </ul>
        </div>
      )}
      <p className="text-[13px] text-dim">
        {!synthetic && report.data_source}{" "}
        {isolationNotice === null && `Each debate ran in its own sandbox: ${sandbox}.`}
      </p>
    </section>
  );
}

/** Returns each text once, with the number of its occurrences. */
function repeated(texts: readonly string[]): [string, number][] {
  return [...new Set(texts)].map((it) => [it, texts.filter((one) => one === it).length]);
}
