import { GitFork } from "lucide-react";
import { type ReactElement, useState } from "react";

import { cn } from "@/lib/cn";
import { useMedia } from "@/lib/media";
import { makerColor } from "@/lib/people";
import type { Report, Turn } from "@/lib/report";
import { useStickToBottom } from "@/lib/stick-to-bottom";
import type { Run } from "@/lib/types";
import type { DebateView } from "@/run/view";
import { Button } from "@/ui/button";

import { sharedOpening } from "./shared-opening";
import { TurnView } from "./thread";

interface Props {
  run: Run;
  report: Report | null;
  debate: DebateView;
  /** Null while the run cannot be forked. */
  onFork: ((place: string) => void) | null;
}

/** The critic's conversation with one decision maker. */
interface Thread {
  log: string;
  maker: string;
  name: string;
  color: string;
}

const threadsOf = (run: Run): Thread[] =>
  run.config.decision_makers.map((it, idx) => ({
    log: `i${idx + 1}`,
    maker: it.id,
    name: it.name,
    color: makerColor(idx),
  }));

/** The conversations of a debate by round: side by side, or one at a time on a phone. */
export function Threads({ run, report, debate, onFork }: Props): ReactElement {
  const { move } = debate;
  const narrow = useMedia("(max-width: 767px)");
  const threads = threadsOf(run);
  const [shown, setShown] = useState(threads[0]?.log ?? "i1");
  const visible = narrow ? threads.filter((it) => it.log === shown) : threads;
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
          <Round run={run} report={report} debate={debate} round={round} threads={visible} fresh={round >= opened} />
        </section>
      ))}
    </section>
  );
}

interface RoundProps extends Omit<Props, "onFork"> {
  round: number;
  threads: Thread[];
  fresh: boolean;
}

/** The turns of one round, one column per conversation. A turn that opens all of them is shown once. */
function Round({ run, report, debate, round, threads, fresh }: RoundProps): ReactElement {
  const { move } = debate;
  const turns = ({ log }: Thread): Turn[] =>
    (report?.outcome.logs[move]?.[log] ?? debate.threads[log] ?? []).filter((it) => it.round === round);
  const shared = sharedOpening(threads.map(turns));
  const first = threads[0];
  const spoken = (turn: Turn, { log, maker, name, color }: Thread): ReactElement => {
    const critic = turn.role === "critic";
    const role = critic ? "critic" : maker;
    const part = `${log}, round ${round}, ${role}`;
    return (
      <TurnView
        key={role}
        turn={turn}
        speaker={critic ? `${run.config.critic.name}${turn === shared ? " to all agents" : ""}` : `${name} (${maker})`}
        color={critic ? "var(--critic)" : color}
        fresh={fresh}
        flags={report?.flags.filter((it) => it.place.document === move && it.place.part === part) ?? []}
        observations={
          report?.observations.filter(
            (it) => it.move_id === move && it.log === log && it.round === round && it.role === role,
          ) ?? []
        }
      />
    );
  };
  return (
    <div className="space-y-3">
      {shared && first && spoken(shared, first)}
      <div className={cn("grid gap-3", threads.length > 1 && "md:grid-cols-3")}>
        {threads.map((it) => (
          <div key={it.log} className="space-y-2">
            {turns(it)
              .slice(shared ? 1 : 0)
              .map((turn) => spoken(turn, it))}
          </div>
        ))}
      </div>
    </div>
  );
}
