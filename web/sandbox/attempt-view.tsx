import { type ReactElement, useMemo } from "react";

import { cn } from "@/lib/cn";
import { milliseconds, percent, words } from "@/lib/format";
import { Badge } from "@/ui/badge";
import { WorkIcon } from "@/ui/status";

import type { Attempt, Execution } from "./attempts";
import { lineDiff } from "./line-diff";

interface Props {
  attempt: Attempt;
  /** The program of the previous attempt. */
  before: string | null;
  /** Whether the job is active. */
  active: boolean;
}

const STEPS = { writing: "writing the program", running: "running the program", critique: "explaining the failure" };

/** One attempt: the program as changes to the previous one, its output, and the critique. */
export function AttemptView({ attempt, before, active }: Props): ReactElement {
  const { number, step, code, execution, failure, critique } = attempt;
  const title = `attempt-${number}`;
  const working = active && step !== "ended";
  const status = working ? "running" : execution?.status === "success" ? "done" : execution ? "failed" : "idle";
  return (
    <section aria-labelledby={title} className="rounded-xl border border-line bg-panel shadow-(--shadow)">
      <header className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2.5">
        <WorkIcon status={status} />
        <h2 id={title} className="text-sm font-semibold">
          Attempt {number}
        </h2>
        {working && <span className="text-[13px] text-dim">{STEPS[step]}…</span>}
        {attempt.resampled && <Badge tone="accent">written from scratch</Badge>}
        {execution && <Verdict execution={execution} />}
      </header>
      <div className="grid grid-cols-1 gap-4 p-4 lg:grid-cols-2">
        <div className="min-w-0 space-y-2">
          {code !== null && <Program number={number} code={code} before={before} />}
          {attempt.reasoning && <p className="text-[13px] text-dim">{attempt.reasoning}</p>}
          {attempt.dependencies.length > 0 && (
            <p className="text-[13px]">
              Packages: <span className="font-mono">{attempt.dependencies.join(", ")}</span>
            </p>
          )}
        </div>
        <div className="min-w-0 space-y-3">
          {execution && <Output title="Output" label={`Output of attempt ${number}`} text={execution.stdout} />}
          {execution && execution.stderr !== "" && (
            <Output title="Errors" label={`Errors of attempt ${number}`} text={execution.stderr} bad />
          )}
          {failure && !critique && <p className="text-[13px] text-bad">{failure.error}</p>}
          {critique && (
            <div className="rounded-lg border-l-2 border-critic bg-sunk px-3 py-2 text-sm">
              <h3 className="mb-1 flex flex-wrap items-center gap-2 text-xs font-semibold text-critic">
                Critique {failure && <Badge tone="bad">{words(failure.class)}</Badge>}
                <span className="font-normal text-dim">confidence {percent(critique.confidence)}</span>
              </h3>
              <p className="whitespace-pre-wrap">{critique.diagnosis}</p>
              {critique.fix_suggestion && (
                <p className="mt-1.5 whitespace-pre-wrap">
                  <b className="font-semibold">Fix:</b> {critique.fix_suggestion}
                </p>
              )}
            </div>
          )}
        </div>
      </div>
    </section>
  );
}

function Verdict({ execution }: { execution: Execution }): ReactElement {
  const { status, exit_code, duration_ms, isolation } = execution;
  return (
    <span className="ml-auto flex flex-wrap items-center gap-2 text-xs text-dim">
      <Badge tone={status === "success" ? "good" : "bad"}>{words(status)}</Badge>
      {exit_code !== null && <span>exit code {exit_code}</span>}
      <span className="tabular-nums">{milliseconds(duration_ms)}</span>
      {isolation && <span>isolation: {isolation}</span>}
    </span>
  );
}

const FRAME = "max-h-[28rem] overflow-auto rounded-lg border border-line bg-sunk font-mono text-xs leading-relaxed";

const MARKS = { same: " ", added: "+", removed: "−" };
const MARK_NAMES = { same: "", added: "added: ", removed: "removed: " };

function Program({ number, code, before }: { number: number; code: string; before: string | null }): ReactElement {
  const lines = useMemo(() => lineDiff(before ?? code, code), [before, code]);
  return (
    <div>
      <h3 className="mb-1 text-xs font-semibold text-dim">
        {before === null ? "Program" : `Program, compared with attempt ${number - 1}`}
      </h3>
      <div tabIndex={0} role="region" aria-label={`Program of attempt ${number}`} className={cn(FRAME, "py-2")}>
        {lines.map((it, idx) => (
          <div
            key={idx}
            data-change={it.kind}
            className={cn(
              "grid min-w-max grid-cols-[2.25rem_1rem_1fr] pr-3 whitespace-pre",
              it.kind === "added" && "bg-good-soft",
              it.kind === "removed" && "bg-bad-soft",
            )}
          >
            <span aria-hidden className="pr-2 text-right text-dim select-none">
              {it.number}
            </span>
            <span aria-hidden className="select-none">
              {before === null ? "" : MARKS[it.kind]}
            </span>
            <code>
              <span className="sr-only">{MARK_NAMES[it.kind]}</span>
              {it.text}
            </code>
          </div>
        ))}
      </div>
    </div>
  );
}

interface OutputProps {
  title: string;
  label: string;
  text: string;
  bad?: boolean;
}

function Output({ title, label, text, bad = false }: OutputProps): ReactElement {
  return (
    <div>
      <h3 className="mb-1 text-xs font-semibold text-dim">{title}</h3>
      {text === "" ? (
        <p className="text-[13px] text-dim">The program printed nothing.</p>
      ) : (
        <pre
          tabIndex={0}
          role="region"
          aria-label={label}
          className={cn(FRAME, "max-h-72 p-3 whitespace-pre-wrap", bad && "text-bad")}
        >
          {text}
        </pre>
      )}
    </div>
  );
}
