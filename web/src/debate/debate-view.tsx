import { ArrowDown, ArrowLeft, ChevronLeft, ChevronRight, GitFork } from "lucide-react";
import { type ReactElement, useEffect, useRef, useState } from "react";

import { cn } from "@/lib/cn";
import { isolationText } from "@/lib/isolation";
import { useStickToBottom } from "@/lib/stick-to-bottom";
import { makerColor } from "@/lib/people";
import type { Report, Turn } from "@/lib/report";
import type { Drawing, Run } from "@/lib/types";
import { useMedia } from "@/lib/media";
import { type DebateView as Debate, type RunView, emptyDebate } from "@/run/view";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { WorkIcon } from "@/ui/status";

import { DebateMap } from "./debate-map";
import { ScoreStrip } from "./score-strip";
import { TurnView } from "./thread";

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
          <Button onClick={() => window.scrollTo({ top: document.documentElement.scrollHeight })}>
            <ArrowDown aria-hidden /> Follow the debate
          </Button>
        )}
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
                {it} {view.debates[it]?.title ? `· ${view.debates[it].title}` : ""}
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
              {debate.title || "This debate has not started"}
            </h2>
            <p className="mt-1.5 flex flex-wrap items-center gap-1.5 text-sm text-dim">
              <WorkIcon status={debate.status} />
              {standing(debate, run)}
              {debate.backend && (
                <Badge tone={debate.isolation === "off" ? "warn" : "good"}>
                  {debate.backend}, {isolationText(debate.isolation)}
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
      <Threads key={move} {...props} debate={debate} />
    </div>
  );
}

function standing(debate: Debate, run: Run): string {
  if (debate.score !== null) return `${debate.score} points after ${debate.round} rounds`;
  if (debate.status === "failed") return "no score";
  if (debate.status !== "running") return "waiting";
  const who = { critic: "the critic is speaking", makers: "the decision makers are answering", answered: "answered" };
  return `round ${debate.round || 1} of ${run.settings.rounds}${debate.step ? `, ${who[debate.step]}` : ""}`;
}

/** The conversations in order, one per decision maker. */
function logs(run: Run): { log: string; maker: string; name: string; color: string }[] {
  return run.config.decision_makers.map((it, idx) => ({
    log: `i${idx + 1}`,
    maker: it.id,
    name: it.name,
    color: makerColor(idx),
  }));
}

function Threads({ run, report, debate, move, onFork }: Props & { debate: Debate }): ReactElement {
  const narrow = useMedia("(max-width: 767px)");
  const threads = logs(run);
  const [shown, setShown] = useState(threads[0]?.log ?? "i1");
  const visible = narrow ? threads.filter((it) => it.log === shown) : threads;
  const turns = (log: string, round: number): Turn[] =>
    (report?.outcome.logs[move]?.[log] ?? debate.threads[log] ?? []).filter((it) => it.round === round);
  const rounds = Array.from({ length: Math.max(debate.round, 0) }, (_, idx) => idx + 1);
  // Animate only turns that arrive after the debate was opened.
  const [opened] = useState(debate.round);
  useStickToBottom(`${debate.round} ${debate.step}`);
  return (
    <section aria-label="Conversations of the debate" className="space-y-3">
      <div className={cn("sticky top-14 z-10 grid gap-3 bg-page py-2", !narrow && "md:grid-cols-3")}>
        {narrow ? (
          <div role="group" aria-label="Conversation" className="flex gap-1 rounded-lg bg-sunk p-1">
            {threads.map((it) => (
              <button
                key={it.log}
                type="button"
                aria-pressed={it.log === shown}
                onClick={() => setShown(it.log)}
                className={cn(
                  "flex-1 rounded-md px-1 py-1.5 text-xs font-medium",
                  it.log === shown && "bg-panel shadow-sm",
                )}
                style={{ color: it.color }}
              >
                {it.maker} {it.name.split(" ")[0]}
              </button>
            ))}
          </div>
        ) : (
          threads.map((it) => (
            <h3 key={it.log} className="rounded-lg border border-line bg-panel px-3 py-2 text-[13px] font-semibold">
              <span className="text-critic">{run.config.critic.name}</span>{" "}
              <span className="font-normal text-dim">against</span>{" "}
              <span style={{ color: it.color }}>
                {it.name} ({it.maker})
              </span>
            </h3>
          ))
        )}
      </div>
      {rounds.length === 0 && <p className="py-8 text-center text-sm text-dim">The debate has not started yet.</p>}
      {rounds.map((round) => (
        <section key={round} aria-label={`Round ${round}`}>
          <div className="mb-2 flex items-center gap-3">
            <h3 className="text-xs font-semibold tracking-wide text-dim uppercase">Round {round}</h3>
            <span className="h-px flex-1 bg-line" />
            {onFork && (
              <Button
                look="ghost"
                className="h-7 text-xs text-dim"
                aria-label={`Fork here, ${move} round ${round}`}
                onClick={() => onFork(`${move}:r${round}`)}
              >
                <GitFork aria-hidden /> Fork here
              </Button>
            )}
          </div>
          <div className={cn("grid gap-3", !narrow && "md:grid-cols-3")}>
            {visible.map((it) => (
              <div key={it.log} className="space-y-2">
                {turns(it.log, round).map((turn) => {
                  const role = turn.role === "critic" ? "critic" : it.maker;
                  const part = `${it.log}, round ${round}, ${role}`;
                  return (
                    <TurnView
                      key={role}
                      turn={turn}
                      speaker={role === "critic" ? run.config.critic.name : `${it.name} (${it.maker})`}
                      color={role === "critic" ? "var(--critic)" : it.color}
                      fresh={round >= opened}
                      flags={
                        report?.flags.filter((flag) => flag.place.document === move && flag.place.part === part) ?? []
                      }
                      observations={
                        report?.observations.filter(
                          (one) =>
                            one.move_id === move && one.log === it.log && one.round === round && one.role === role,
                        ) ?? []
                      }
                    />
                  );
                })}
              </div>
            ))}
          </div>
        </section>
      ))}
    </section>
  );
}
