import { Plus, X } from "lucide-react";
import type { ReactElement } from "react";

import type { Move } from "@/lib/types";
import { Button } from "@/ui/button";
import { Area, Field, Select } from "@/ui/field";

interface Props {
  move: Move;
  /** Parts that the move is missing, and how often the reviewer tried to submit it without them. */
  missingParts: readonly string[];
  attempts: number;
  onChange: (move: Move) => void;
  onClose: () => void;
  /** Reverts the changes, or removes an added move. */
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

/** Lists that are edited as text, with the separator between their items. */
const LISTS = [
  {
    key: "reasoning",
    label: "Reasoning",
    hint: "Separate paragraphs with an empty line. Cite findings as [F1-07].",
    between: "\n\n",
    rows: 8,
  },
  { key: "citations", label: "Citations", hint: "The supporting findings, one per line.", between: "\n", rows: 4 },
  { key: "falsifiers", label: "What would show this is wrong", hint: "One per line.", between: "\n", rows: 4 },
] as const;

/** Edits a move. Changes are saved immediately, so that leaving the form loses nothing. */
export function MoveForm({ move, missingParts, attempts, onChange, onClose, undo }: Props): ReactElement {
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
      {missingParts.length > 0 && (
        <p key={attempts} ref={focusOnMount} tabIndex={-1} role="alert" className="text-sm font-medium text-bad">
          {move.move_id} is missing {missingParts.join(" and ")}.
        </p>
      )}
      <div className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_8rem]">
        <Field
          label="Title"
          required
          autoFocus
          aria-invalid={missingParts.includes("a title")}
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
            aria-invalid={missingParts.includes(`a ${key}`)}
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

/** Moves the focus to the error when it appears. */
function focusOnMount(it: HTMLElement | null): void {
  it?.focus();
}

type Step = Move["steps"][number];

const PARTS = [
  { key: "action", label: "Action" },
  { key: "owner", label: "Owner" },
  { key: "timeframe", label: "Timeframe" },
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
        <Plus aria-hidden /> Add step
      </Button>
    </fieldset>
  );
}
