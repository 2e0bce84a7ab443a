import { type FormEvent, type ReactElement, useState } from "react";

import type { Move } from "@/lib/types";
import { Button } from "@/ui/button";
import { Area, Field } from "@/ui/field";

interface Props {
  move: Move;
  onSave: (move: Move) => void;
  onCancel: () => void;
}

const TEXTS = [
  { key: "thesis", label: "Thesis", rows: 3 },
  { key: "why_now", label: "Why now", rows: 2 },
  { key: "cost", label: "Cost and resources", rows: 1 },
  { key: "downside", label: "Downside", rows: 2 },
  { key: "mitigation", label: "Mitigation", rows: 2 },
  { key: "kpi", label: "KPI", rows: 1 },
] as const;

/** Changes a move's words. Its steps and citations stay as the analyst gave them. */
export function MoveForm({ move, onSave, onCancel }: Props): ReactElement {
  const [draft, setDraft] = useState(move);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onSave(draft);
  };
  return (
    <form onSubmit={submit} className="mt-3 space-y-3 rounded-lg bg-sunk p-4" aria-label={`Edit ${move.move_id}`}>
      <Field
        label="Title"
        required
        value={draft.title}
        onChange={(it) => setDraft({ ...draft, title: it.target.value })}
      />
      <div className="grid gap-3 md:grid-cols-2">
        {TEXTS.map(({ key, label, rows }) => (
          <Area
            key={key}
            label={label}
            rows={rows}
            value={draft[key]}
            onChange={(it) => setDraft({ ...draft, [key]: it.target.value })}
          />
        ))}
      </div>
      <Area
        label="Reasoning"
        hint="Paragraphs are set apart by an empty line."
        rows={8}
        value={draft.reasoning.join("\n\n")}
        onChange={(it) => setDraft({ ...draft, reasoning: it.target.value.split(/\n\n/) })}
      />
      <div className="flex justify-end gap-2">
        <Button onClick={onCancel}>Leave as it was</Button>
        <Button type="submit" look="solid">
          Keep the change
        </Button>
      </div>
    </form>
  );
}
