import type { ReactElement } from "react";

import { Area, Check, Field, Select } from "@/ui/field";

import type { Draft, FormField } from "./schema";

interface Props {
  fields: readonly FormField[];
  draft: Draft;
  onChange: (draft: Draft) => void;
  /** Name of the invalid field. */
  invalid: string | null;
}

/** One control for each field. */
export function SchemaForm({ fields, draft, onChange, invalid }: Props): ReactElement {
  return (
    <div className="space-y-3">
      {fields.map((it) => (
        <FieldControl
          key={it.name}
          field={it}
          text={draft[it.name] ?? it.initial}
          invalid={invalid === it.name}
          onChange={(text) => onChange({ ...draft, [it.name]: text })}
        />
      ))}
    </div>
  );
}

interface ControlProps {
  field: FormField;
  text: string;
  invalid: boolean;
  onChange: (text: string) => void;
}

function FieldControl({ field, text, invalid, onChange }: ControlProps): ReactElement {
  const { kind } = field;
  const label = field.required ? `${field.title} (required)` : field.title;
  const common = { label, "aria-invalid": invalid || undefined };
  const hint = field.description ?? undefined;
  const area = (hint: string | undefined, rows: number, mono: boolean): ReactElement => (
    <Area
      {...common}
      hint={hint}
      rows={rows}
      value={text}
      spellCheck={!mono}
      {...(mono && { style: { fontFamily: "var(--font-mono)", fontSize: 13 } })}
      onChange={(event) => onChange(event.target.value)}
    />
  );
  switch (kind.type) {
    case "text":
      return area(hint, Math.min(6, text.split("\n").length), false);
    case "texts":
      return area(hint ?? "One item per line", 3, false);
    case "messages":
      return area(hint ?? "Sent as a user message", 3, false);
    case "json":
      return area(hint ?? "JSON", 3, true);
    case "number":
      return (
        <Field
          {...common}
          hint={hint}
          inputMode={kind.integer ? "numeric" : "decimal"}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "boolean":
      return (
        <Check
          label={label}
          hint={hint}
          checked={text === "true"}
          onChange={(event) => onChange(String(event.target.checked))}
        />
      );
    case "choice":
      return (
        <Select {...common} hint={hint} value={text} onChange={(event) => onChange(event.target.value)}>
          <option value="">Not set</option>
          {kind.values.map((it) => (
            <option key={JSON.stringify(it)} value={JSON.stringify(it)}>
              {typeof it === "string" ? it : JSON.stringify(it)}
            </option>
          ))}
        </Select>
      );
  }
}
