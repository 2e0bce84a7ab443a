import type { ReactElement } from "react";

import { FileList } from "@/actions/files-dialog";
import { roleName } from "@/lib/people";
import type { Report } from "@/lib/report";
import type { Run } from "@/lib/types";
import { Panel } from "@/ui/panel";

import { FigureChart } from "./figure-chart";
import { Flags } from "./flags";
import { Origin } from "./origin";
import { Others } from "./others";
import { SpendingTable } from "./spending";
import { TopMove } from "./top-move";
import { TopSummary } from "./top-summary";
import { Reliability } from "./reliability";

interface Props {
  run: Run;
  report: Report | null;
  onDebate: (move: string) => void;
}

/** The results of a run. */
export function Results({ run, report, onDebate }: Props): ReactElement {
  if (!report) return <p className="py-16 text-center text-dim">Loading the results…</p>;
  const { ranking } = report;
  return (
    <div className="space-y-6">
      <Origin report={report} config={run.config} />
      <section aria-labelledby="recommended" className="space-y-4">
        <h2 id="recommended" className="text-base font-semibold">
          Recommended
        </h2>
        <TopSummary run={run} report={report} />
        {ranking.recommended.map((it) => (
          <TopMove key={it.move_id} run={run} report={report} ranked={it} onDebate={onDebate} />
        ))}
      </section>
      {report.figures && report.figures.length > 0 && (
        <Panel folds id="figures" title="The company in figures">
          <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
            {report.figures.map((it) => (
              <FigureChart key={it.title} chart={it} />
            ))}
          </div>
          <p className="mt-3 text-[13px] text-dim">{report.data_source}</p>
        </Panel>
      )}
      <Panel folds id="trust" title="Reliability of the ranking">
        <Reliability report={report} config={run.config} />
      </Panel>
      {ranking.other.length > 0 && (
        <Panel folds id="others" title={`Other moves (${ranking.other.length})`} inner="p-0">
          <Others run={run} report={report} onDebate={onDebate} />
        </Panel>
      )}
      {ranking.unscored.length > 0 && (
        <Panel id="unscored" title="Not scored">
          <ul className="space-y-1 text-sm">
            {ranking.unscored.map((it) => (
              <li key={it.move_id}>
                <span className="font-mono text-dim">{it.move_id}</span>{" "}
                {report.outcome.moves.find((move) => move.move_id === it.move_id)?.title}: {it.reason}
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-2">
        <Panel folds id="flags" title={`Flags (${report.flags.length})`} scrolls>
          <p className="mb-3 text-[13px] text-dim">
            All citations and numbers were checked automatically against the findings and the data. Flags do not change
            scores.
          </p>
          <Flags flags={report.flags} config={run.config} withMove />
        </Panel>
        <Panel folds id="cost" title="Cost" scrolls>
          <SpendingTable
            rows={report.outcome.spending.map((it) => ({ ...it, name: roleName(run.config, it.name) }))}
            total={run.usage}
          />
        </Panel>
      </div>
      <Panel folds id="downloads" title="Downloads">
        <FileList run={run} />
      </Panel>
    </div>
  );
}
