import { ArrowDown, ArrowLeft, ChevronLeft, ChevronRight } from "lucide-react";
import { type ReactElement, useEffect, useRef } from "react";

import { counted } from "@/lib/format";
import { levelText } from "@/lib/isolation";
import type { Report } from "@/lib/report";
import { scrollToBottom } from "@/lib/stick-to-bottom";
import type { Drawing, Run } from "@/lib/types";
import { titleOf } from "@/run/titles";
import { type DebateView as Debate, type RunView, emptyDebate } from "@/run/view";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { WorkIcon } from "@/ui/status";

import { DebateMap } from "./debate-map";
import { ScoreStrip } from "./score-strip";
import { DebateCalls } from "./debate-calls";
import { Threads } from "./threads";
import { TraceLink } from "./trace-link";

interface Props {
  run: Run;
  view: RunView;
  report: Report | null;
  drawing: Drawing | null;
  moves: string[];
  move: string;
  onMove: (move: string) => void;
  onBack: () => void;
  /** Null while the run cannot be forked. */
  onFork: ((place: string) => void) | null;
}

/** A debate: the critic against each decision maker, side by side, by round. */
export function DebateView(props: Props): ReactElement {
  const { run, view, report, drawing, moves, move, onMove, onBack } = props;
  const debate = view.debates[move] ?? emptyDebate(move);
  const ranked = report?.ranking.recommended.concat(report.ranking.other).find((it) => it.move_id === move);
  const proposal = report?.outcome.moves.find((it) => it.move_id === move);
  const at = moves.indexOf(move);
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // Scroll to the top of the debate, and focus its title if the element that opened it is gone.
    if ((title.current?.getBoundingClientRect().top ?? 0) < 60) title.current?.scrollIntoView();
    if (document.activeElement === document.body) title.current?.focus({ preventScroll: true });
  }, [move]);
  return (
    <div className="space-y-4">
      <div className="flex flex-wrap items-center gap-2">
        <Button onClick={onBack}>
          <ArrowLeft aria-hidden /> Pipeline
        </Button>
        {debate.status === "running" && debate.round > 1 && (
          <Button onClick={scrollToBottom}>
            <ArrowDown aria-hidden /> Follow the debate
          </Button>
        )}
        {run.status === "complete" && <TraceLink run={run.id} name={move} text="Trace" />}
        <div className="ml-auto flex items-center gap-1.5">
          <Button
            size="icon"
            className="size-8"
            aria-label="Previous move"
            disabled={at <= 0}
            onClick={() => onMove(moves[at - 1]!)}
          >
            <ChevronLeft aria-hidden />
          </Button>
          <label className="sr-only" htmlFor="pick-move">
            Move
          </label>
          <select
            id="pick-move"
            value={move}
            onChange={(event) => onMove(event.target.value)}
            className="h-8 max-w-56 rounded-md border border-edge bg-panel px-2 text-[13px] text-ellipsis"
          >
            {moves.map((it) => (
              <option key={it} value={it}>
                {[it, titleOf(it, run, view)].filter((part) => part !== "").join(" · ")}
              </option>
            ))}
          </select>
          <Button
            size="icon"
            className="size-8"
            aria-label="Next move"
            disabled={at >= moves.length - 1}
            onClick={() => onMove(moves[at + 1]!)}
          >
            <ChevronRight aria-hidden />
          </Button>
        </div>
      </div>
      <section aria-labelledby="debate-title" className="rounded-xl border border-line bg-panel p-4 shadow-(--shadow)">
        <div className="flex flex-wrap items-start gap-x-6 gap-y-3">
          <div className="min-w-0 flex-1 basis-72">
            <p className="flex items-center gap-2 text-sm text-dim">
              <span className="font-mono">{move}</span>
              {proposal && (
                <span>
                  {proposal.persona} · {proposal.risk_level} risk
                </span>
              )}
            </p>
            <h2 ref={title} tabIndex={-1} id="debate-title" className="text-lg outline-none leading-snug font-semibold">
              {titleOf(move, run, view) || "This move has not been proposed yet"}
            </h2>
            <p className="mt-1.5 flex flex-wrap items-center gap-1.5 text-sm text-dim">
              <WorkIcon status={debate.status} />
              {standing(debate, run)}
              {debate.backend && (
                <Badge tone={debate.isolation === "off" ? "warn" : "good"}>
                  {debate.backend}, {levelText(debate.isolation)}
                </Badge>
              )}
              {ranked && <Badge tone="accent">rank {ranked.rank}</Badge>}
            </p>
            {debate.reason && <p className="mt-2 text-sm text-bad">{debate.reason}</p>}
          </div>
          {drawing && (
            <DebateMap
              drawing={drawing}
              debate={debate}
              rounds={run.settings.rounds}
              baseline={run.settings.baseline}
            />
          )}
        </div>
        {debate.score !== null && <ScoreStrip scores={debate.breakdown} config={run.config} />}
      </section>
      {debate.status !== "idle" && <DebateCalls key={`calls ${move}`} run={run} debate={debate} />}
      <Threads key={move} run={run} report={report} debate={debate} onFork={props.onFork} />
    </div>
  );
}

function standing(debate: Debate, run: Run): string {
  if (debate.score !== null) return `${counted(debate.score, "point")} after ${counted(debate.round, "round")}`;
  if (debate.status === "failed") return "no score";
  if (debate.status !== "running") return "waiting";
  const who = { critic: "the critic is speaking", makers: "the decision makers are answering", answered: "answered" };
  return `round ${debate.round || 1} of ${run.settings.rounds}${debate.step ? `, ${who[debate.step]}` : ""}`;
}
