import type { ReactElement } from "react";

import { TraceLink } from "@/debate/trace-link";
import { cn } from "@/lib/cn";
import { count, dollars, milliseconds } from "@/lib/format";
import type { Report } from "@/lib/report";
import type { Run } from "@/lib/types";
import { Panel } from "@/ui/panel";
import { STATUS_WORDS, WorkIcon } from "@/ui/status";

import { type TimelineRow, timelineRows } from "./timeline";
import type { RunView } from "./view";

interface Props {
  run: Run;
  view: RunView;
  moves: string[];
  report: Report | null;
  onAgent: (id: string) => void;
  onDebate: (move: string) => void;
}

/** When each agent and debate ran, how long it took, and what it cost. */
export function TimelineTab({ run, view, moves, report, onAgent, onDebate }: Props): ReactElement {
  const rows = timelineRows(run, view, moves, report);
  const start = Math.min(...rows.map((it) => it.started));
  const end = Math.max(...rows.map((it) => it.ended ?? it.started));
  // The timeline of a run in progress grows to the right; its last bar must not have zero width.
  const length = Math.max(1, end - start);
  const open = (it: TimelineRow): void => (it.kind === "agent" ? onAgent(it.id) : onDebate(it.id));
  return (
    <Panel
      id="timeline"
      title="Timeline"
      inner="p-0"
      aside={run.status === "complete" && <TraceLink run={run.id} name="pipeline" text="Trace of the pipeline" />}
    >
      {rows.length === 0 ? (
        <p className="px-4 py-8 text-center text-sm text-dim">No agent has started yet.</p>
      ) : (
        <table className="w-full table-fixed text-[13px] tabular-nums">
          <caption className="sr-only">Agents and debates in order of their start</caption>
          <thead className="text-xs text-dim">
            <tr className="border-b border-line">
              <Head className="w-[52%] text-left sm:w-64 lg:w-96">Agent or debate</Head>
              <Head className="hidden text-left sm:table-cell">Start to end: {milliseconds(length)}</Head>
              <Head className="w-[24%] text-right sm:w-28">Duration</Head>
              <Head className="w-[24%] text-right sm:w-28">Tokens</Head>
              <Head className="hidden w-24 text-right sm:table-cell">Cost</Head>
            </tr>
          </thead>
          <tbody>
            {rows.map((it) => (
              <tr key={it.id} className="border-b border-line last:border-0 hover:bg-sunk">
                <th scope="row" className="px-4 py-1 text-left font-normal">
                  <button
                    type="button"
                    onClick={() => open(it)}
                    className="flex w-full min-w-0 items-center gap-2 py-0.5 text-left"
                  >
                    <WorkIcon status={it.status} />
                    {it.kind === "debate" && (
                      <span className="font-mono text-xs whitespace-nowrap text-dim">{it.id}</span>
                    )}
                    <span className="min-w-0 truncate">{it.name}</span>
                    <span className="sr-only">, {STATUS_WORDS[it.status]}</span>
                  </button>
                </th>
                <td aria-hidden className="hidden px-4 py-1 sm:table-cell">
                  <Bar row={it} start={start} end={end} length={length} />
                </td>
                <td className="px-4 py-1 text-right whitespace-nowrap">
                  {it.ended === null ? "–" : milliseconds(it.ended - it.started)}
                </td>
                <td className="px-4 py-1 text-right whitespace-nowrap">
                  {it.spending ? count(it.spending.input_tokens + it.spending.output_tokens) : "–"}
                </td>
                <td className="hidden px-4 py-1 text-right sm:table-cell">
                  {it.spending ? dollars(it.spending.dollars) : "–"}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {rows.length > 0 && report === null && (
        <p className="border-t border-line px-4 py-2 text-xs text-dim">
          Tokens and cost by agent are available when the run is complete.
        </p>
      )}
    </Panel>
  );
}

function Head({ className, children }: { className: string; children: React.ReactNode }): ReactElement {
  return (
    <th scope="col" className={cn("px-4 py-2 font-medium", className)}>
      {children}
    </th>
  );
}

interface BarProps {
  row: TimelineRow;
  start: number;
  end: number;
  length: number;
}

function Bar({ row, start, end, length }: BarProps): ReactElement {
  const [from, to] = [row.started - start, (row.ended ?? end) - start];
  return (
    <span className="relative block h-3 rounded bg-sunk">
      <span
        className={cn(
          "absolute inset-y-0 min-w-[3px] rounded",
          row.status === "failed" ? "bg-bad" : row.kind === "agent" ? "bg-accent" : "bg-good",
        )}
        style={{ left: `${(from / length) * 99}%`, width: `${((to - from) / length) * 99}%` }}
      />
    </span>
  );
}
