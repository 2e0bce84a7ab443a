import type { ReactElement } from "react";

import { Field } from "@/ui/field";

/** Budget of a run as entered; empty means no limit. */
export interface BudgetDraft {
  tokens: string;
  money: string;
}

export const NO_BUDGET: BudgetDraft = { tokens: "", money: "" };

interface Props {
  draft: BudgetDraft;
  onChange: (change: Partial<BudgetDraft>) => void;
}

/** Fields for the budget of a run. */
export function BudgetFields({ draft, onChange }: Props): ReactElement {
  return (
    <>
      <Field
        label="Token limit"
        type="number"
        min={1}
        placeholder="no limit"
        value={draft.tokens}
        onChange={(it) => onChange({ tokens: it.target.value })}
      />
      <Field
        label="Cost limit in dollars"
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

/** Converts the budget to the format of the API. */
export function budget({ tokens, money }: BudgetDraft): { max_tokens?: number; max_dollars?: number } {
  return { ...number("max_tokens", tokens), ...number("max_dollars", money) };
}

/** Returns a numeric field as an object with one property, or an empty object if the field is empty. */
export function number(name: string, text: string): Record<string, number> {
  return text.trim() === "" ? {} : { [name]: Number(text) };
}
