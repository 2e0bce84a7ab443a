import { Plus, X } from "lucide-react";
import type { ReactElement } from "react";

import type { Move } from "@/lib/types";
import { Button } from "@/ui/button";
import { Area, Field, Select } from "@/ui/field";

interface Props {
  move: Move;
  /** What the move is without, if it was to be debated, and how often that was tried. */
  lacks: readonly string[];
  tries: number;
  onChange: (move: Move) => void;
  onClose: () => void;
  /** Takes back what was done to the move: its changes, or that it was added. */
  undo: { name: string; act: (() => void) | null };
}

const TEXTS = [
  { key: "thesis", label: "Thesis", rows: 3 },
  { key: "why_now", label: "Why now", rows: 3 },
  { key: "cost", label: "Cost and resources", rows: 2 },
  { key: "kpi", label: "KPI", rows: 2 },
  { key: "downside", label: "Downside", rows: 2 },
  { key: "mitigation", label: "Mitigation", rows: 2 },
] as const;

/** Lists that are written as text, with what lies between their parts. */
const LISTS = [
  {
    key: "reasoning",
    label: "Reasoning",
    hint: "Paragraphs are set apart by an empty line. Findings are cited like [F1-07].",
    between: "\n\n",
    rows: 8,
  },
  { key: "citations", label: "Citations", hint: "The findings it rests on, one a line.", between: "\n", rows: 4 },
  { key: "falsifiers", label: "What would show this is wrong", hint: "One a line.", between: "\n", rows: 4 },
] as const;

/** Changes a move. Every change counts at once, so nothing is lost by going elsewhere. */
export function MoveForm({ move, lacks, tries, onChange, onClose, undo }: Props): ReactElement {
  const change = (it: Partial<Move>): void => onChange({ ...move, ...it });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onClose();
      }}
      className="mt-3 space-y-3 rounded-lg bg-sunk p-4"
      aria-label={`Edit ${move.move_id}`}
    >
      {lacks.length > 0 && (
        <p key={tries} ref={bringHere} tabIndex={-1} role="alert" className="text-sm font-medium text-bad">
          {move.move_id} lacks {lacks.join(", ")}.
        </p>
      )}
      <div className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_8rem]">
        <Field
          label="Title"
          required
          autoFocus
          aria-invalid={lacks.includes("a title")}
          value={move.title}
          onChange={(it) => change({ title: it.target.value })}
        />
        <Select label="Risk" value={move.risk_level} onChange={(it) => change({ risk_level: it.target.value })}>
          {["low", "medium", "high"].map((it) => (
            <option key={it}>{it}</option>
          ))}
        </Select>
      </div>
      <div className="grid gap-3 md:grid-cols-2">
        {TEXTS.map(({ key, label, rows }) => (
          <Area
            key={key}
            label={label}
            rows={rows}
            required={key === "thesis"}
            aria-invalid={lacks.includes(`a ${key}`)}
            value={move[key]}
            onChange={(it) => change({ [key]: it.target.value })}
          />
        ))}
      </div>
      <Steps steps={move.steps} onChange={(steps) => change({ steps })} />
      <div className="grid gap-3 md:grid-cols-2">
        {LISTS.map(({ key, label, hint, between, rows }) => (
          <Area
            key={key}
            label={label}
            hint={hint}
            rows={rows}
            className={key === "reasoning" ? "md:col-span-2" : undefined}
            value={move[key].join(between)}
            onChange={(it) => change({ [key]: it.target.value.split(between) })}
          />
        ))}
      </div>
      <div className="flex justify-end gap-2">
        <Button disabled={undo.act === null} onClick={() => undo.act?.()}>
          {undo.name}
        </Button>
        <Button type="submit" look="solid">
          Done
        </Button>
      </div>
    </form>
  );
}

/** Whoever wanted to go on is brought to what is in the way. */
function bringHere(it: HTMLElement | null): void {
  it?.focus();
}

type Step = Move["steps"][number];

const PARTS = [
  { key: "action", label: "Action" },
  { key: "owner", label: "Owner" },
  { key: "timeframe", label: "Until" },
] as const;

function Steps({ steps, onChange }: { steps: Step[]; onChange: (steps: Step[]) => void }): ReactElement {
  const change = (at: number, it: Partial<Step>): void =>
    onChange(steps.map((step, idx) => (idx === at ? { ...step, ...it } : step)));
  return (
    <fieldset>
      <legend className="text-[13px] font-medium">Steps</legend>
      <ol className="mt-1 space-y-2">
        {steps.map((step, idx) => (
          <li
            key={idx}
            className="grid grid-cols-[minmax(0,1fr)_minmax(0,1fr)_2.25rem] items-end gap-2 md:grid-cols-[minmax(0,1fr)_12rem_10rem_2.25rem]"
          >
            {PARTS.map(({ key, label }) => (
              <Field
                key={key}
                label={
                  <span className="text-xs font-normal text-dim">
                    {label} <span className="sr-only">of step {idx + 1}</span>
                  </span>
                }
                className={key === "action" ? "max-md:col-span-3" : undefined}
                value={step[key]}
                onChange={(it) => change(idx, { [key]: it.target.value })}
              />
            ))}
            <Button
              size="icon"
              aria-label={`Remove step ${idx + 1}`}
              onClick={() => onChange(steps.filter((_, at) => at !== idx))}
            >
              <X aria-hidden />
            </Button>
          </li>
        ))}
      </ol>
      <Button className="mt-2" onClick={() => onChange([...steps, { action: "", owner: "", timeframe: "" }])}>
        <Plus aria-hidden /> Add a step
      </Button>
    </fieldset>
  );
}
