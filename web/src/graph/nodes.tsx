import { Handle, type NodeProps, Position, useStore } from "@xyflow/react";
import type { ReactElement } from "react";

import { cn } from "@/lib/cn";
import { STATUS_WORDS, WorkIcon } from "@/ui/status";
import { Ring } from "@/ui/ring";
import { board } from "@/run/board";
import { titleOf } from "@/run/titles";

import { useGraph } from "./context";
import { stageState } from "./live";
import type { StageId } from "./scene";

/** Below this zoom level only the stages are shown, with enlarged text. */
export const FAR_ZOOM = 0.56;

export const isFar = (state: { transform: [number, number, number] }): boolean => state.transform[2] < FAR_ZOOM;

function Handles({ narrow }: { narrow: boolean }): ReactElement {
  return (
    <>
      <Handle type="target" position={narrow ? Position.Top : Position.Left} isConnectable={false} />
      <Handle type="source" position={narrow ? Position.Bottom : Position.Right} isConnectable={false} />
    </>
  );
}

const RING = { idle: "var(--edge)", running: "var(--accent)", done: "var(--good)", failed: "var(--bad)" };

export function StageNode({ data }: NodeProps): ReactElement {
  const { run, view, moves, openStage, selected } = useGraph();
  const { stage, title, narrow } = data as { stage: StageId; title: string; narrow: boolean };
  const far = useStore(isFar);
  const zoom = useStore((state) => (state.transform[2] < FAR_ZOOM ? Math.round(state.transform[2] * 50) / 50 : 1));
  const state = stageState(stage, run.config, view, moves);
  return (
    <div
      className={cn(
        "size-full rounded-xl bg-panel/80 transition-colors",
        far ? "border-2" : "border",
        state.status === "running" ? "border-accent" : state.status === "failed" ? "border-bad" : "border-line",
        selected === stage && "ring-2 ring-accent/40",
      )}
    >
      <Handles narrow={narrow} />
      <button
        type="button"
        onClick={() => openStage(stage)}
        aria-label={`${title} ${state.note}: layer ${STATUS_WORDS[state.status]}. Zoom in.`}
        className={cn(
          "nopan pointer-events-auto flex w-full rounded-xl text-left",
          far ? "h-full items-center justify-center gap-[0.5em]" : "h-10 items-center gap-2 px-3",
          far && !narrow && "flex-col",
        )}
        style={far ? { fontSize: `${13 / zoom}px` } : undefined}
      >
        <Ring share={state.share} size={far ? 30 / zoom : 18} color={RING[state.status]} />
        <span className={cn("font-semibold whitespace-nowrap", far ? "leading-tight" : "text-[13px]")}>
          {title}
        </span>{" "}
        <span
          className={cn(
            "text-dim",
            far ? "px-[0.5em] text-center text-[0.8em] leading-tight" : "ml-auto text-[11px]",
            // On a small screen only the widest stage has room for the note; a ring shows the progress of the others.
            !far && stage !== "sandbox" && "md:max-[1199px]:hidden",
          )}
        >
          {state.note}
        </span>
      </button>
    </div>
  );
}

/** Larger text on a small screen, where the graph is scaled down. */
const DENSE_TEXT = "md:max-[1199px]:text-[13px] md:max-[1199px]:leading-[15px]";

const CELL =
  "nopan pointer-events-auto flex size-full flex-col rounded-lg border bg-panel px-2.5 py-2 text-left shadow-(--shadow) transition-colors hover:border-accent";

function frame(status: string): string {
  if (status === "running") return "border-accent bg-accent-soft/60 pulse";
  return status === "failed" ? "border-bad/60" : status === "done" ? "border-good/40" : "border-line";
}

export function AgentNode({ data }: NodeProps): ReactElement | null {
  const { view, openAgent, selected } = useGraph();
  const { id, name, narrow } = data as { id: string; name: string; narrow: boolean };
  const far = useStore(isFar);
  const agent = view.agents[id];
  const status = agent?.status ?? "idle";
  const outputs = agent?.outputs.map((it) => it.replace(/\.md$/, "")).join(", ");
  const note = outputs || agent?.reason || (status === "running" ? "writing…" : "");
  if (far) return <Handles narrow={narrow} />;
  return (
    <>
      <Handles narrow={narrow} />
      <button
        type="button"
        onClick={() => openAgent(id)}
        aria-label={`${name} ${note}: agent ${STATUS_WORDS[status]}`}
        className={cn(CELL, "justify-between", frame(status), selected === id && "ring-2 ring-accent/40")}
      >
        <span className="flex items-start gap-1.5">
          <span className={cn("line-clamp-3 flex-1 leading-4 font-medium", narrow ? "text-[11px]" : "text-[12.5px]")}>
            {name}
          </span>
          <WorkIcon status={status} />
        </span>{" "}
        <span className="truncate font-mono text-[10.5px] text-dim md:max-[1199px]:text-[12px]">{note}</span>
      </button>
    </>
  );
}

export function DebateNode({ data }: NodeProps): ReactElement | null {
  const { run, view, openDebate } = useGraph();
  const { id, narrow } = data as { id: string; narrow: boolean };
  const far = useStore(isFar);
  const debate = view.debates[id];
  const status = debate?.status ?? "idle";
  const title = titleOf(id, run, view);
  const rounds = run.settings.rounds;
  const progress =
    status === "done" ? 1 : Math.max(0, (debate?.round ?? 0) - (debate?.step === "answered" ? 0 : 1)) / rounds;
  const progressText = status === "running" ? `${debate?.round || 1}/${rounds}` : (debate?.score?.toString() ?? "");
  if (far) return <Handles narrow={narrow} />;
  return (
    <>
      <Handles narrow={narrow} />
      <button
        type="button"
        onClick={() => openDebate(id)}
        aria-label={`${id} ${title} ${progressText}: debate ${STATUS_WORDS[status]}. Open.`}
        className={cn(
          CELL,
          "grid grid-cols-[auto_auto_1fr] grid-rows-[auto_1fr_auto] items-start gap-1",
          frame(status),
        )}
      >
        <span className="font-mono text-[11px] leading-4 font-semibold text-dim">{id}</span>{" "}
        <span className="mt-0.5">
          <WorkIcon status={status} size={12} />
        </span>
        <span
          className={cn(
            "col-span-3 line-clamp-2 text-[11px] leading-[14px]",
            !narrow && DENSE_TEXT,
            "md:max-[1199px]:line-clamp-3",
          )}
        >
          {title}
        </span>{" "}
        <span
          className={cn(
            "col-start-3 row-start-1 justify-self-end text-[11px] leading-4 tabular-nums",
            status === "done" ? "text-[13px] font-bold" : "text-dim",
          )}
        >
          {progressText}
        </span>
        <span className="col-span-3 h-1 overflow-hidden rounded-full bg-sunk">
          <span
            className={cn(
              "block h-full rounded-full transition-[width] duration-500",
              status === "done" ? "bg-good" : "bg-accent",
            )}
            style={{ width: `${progress * 100}%` }}
          />
        </span>
      </button>
    </>
  );
}

export function RankingNode({ data }: NodeProps): ReactElement | null {
  const { run, view } = useGraph();
  const far = useStore(isFar);
  const { narrow } = data as { narrow: boolean };
  if (far) return <Handles narrow={narrow} />;
  const metrics = run.config.metrics.map((it) => it.id);
  const best = board(Object.values(view.debates), metrics)
    .filter((it) => it.rank !== null)
    .slice(0, run.config.top_k);
  return (
    <ol className="flex h-full flex-col gap-1.5" aria-label="Best moves so far">
      {best.map(({ debate, rank }) => (
        <li
          key={debate.move}
          className="flex flex-1 items-center gap-2 rounded-lg border border-line bg-panel px-2.5 text-[11px]"
        >
          <span className="font-semibold text-dim">{rank}</span>
          <span className={cn("line-clamp-2 flex-1 leading-[14px]", DENSE_TEXT)}>{debate.title}</span>
          <b className="text-[13px] tabular-nums">{debate.score}</b>
        </li>
      ))}
      {best.length === 0 && <li className="m-auto px-3 text-center text-[11px] text-dim">No scores yet</li>}
    </ol>
  );
}
