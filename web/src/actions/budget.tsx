import type { ReactElement } from "react";

import { Field } from "@/ui/field";

/** What a run may spend, as it is typed; nothing is no limit. */
export interface BudgetDraft {
  tokens: string;
  money: string;
}

export const NO_BUDGET: BudgetDraft = { tokens: "", money: "" };

interface Props {
  draft: BudgetDraft;
  onChange: (change: Partial<BudgetDraft>) => void;
}

/** Asks for what a run may spend. */
export function BudgetFields({ draft, onChange }: Props): ReactElement {
  return (
    <>
      <Field
        label="Tokens at most"
        type="number"
        min={1}
        placeholder="no limit"
        value={draft.tokens}
        onChange={(it) => onChange({ tokens: it.target.value })}
      />
      <Field
        label="Dollars at most"
        type="number"
        min={0}
        step="any"
        placeholder="no limit"
        value={draft.money}
        onChange={(it) => onChange({ money: it.target.value })}
      />
    </>
  );
}

/** The same as the server reads it. */
export function budget({ tokens, money }: BudgetDraft): { max_tokens?: number; max_dollars?: number } {
  return { ...number("max_tokens", tokens), ...number("max_dollars", money) };
}

/** A number that was given, under its name; an empty field gives nothing. */
export function number(name: string, text: string): Record<string, number> {
  return text.trim() === "" ? {} : { [name]: Number(text) };
}
