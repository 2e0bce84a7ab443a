import type { ReactElement } from "react";

import { Field, Select } from "@/ui/field";
import { JsonArea } from "@studio/ui/json-area";
import { JsonView } from "@studio/ui/json-view";

import { type DecisionDraft, type DecisionKind, type ReviewedCall, draftOf, initialDecision } from "./tool-review";

const WORDS: Record<DecisionKind, string> = {
  approve: "Approve",
  edit: "Edit the arguments",
  reject: "Reject",
  respond: "Answer in place of the tool",
};

interface Props {
  calls: readonly ReviewedCall[];
  drafts: readonly DecisionDraft[];
  onChange: (drafts: DecisionDraft[]) => void;
}

/** A decision for each tool call that waits for a review. */
export function ToolReviewForm({ calls, drafts, onChange }: Props): ReactElement {
  const decided = calls.map((it, at) => drafts[at] ?? initialDecision(it));
  return (
    <div className="space-y-4">
      {calls.map((call, at) => {
        const draft = decided[at]!;
        const set = (it: DecisionDraft): void => onChange(decided.with(at, it));
        return (
          <div key={at} className="space-y-3">
            <div className="rounded-md bg-sunk px-3 py-2">
              <p className="text-[13px] font-medium">Call of {call.name}</p>
              {call.description !== null && <p className="text-xs whitespace-pre-wrap text-dim">{call.description}</p>}
              <div className="mt-1">
                <JsonView value={call.args} />
              </div>
            </div>
            <Select
              label={`Decision on ${call.name}`}
              value={draft.kind}
              onChange={(event) => set(draftOf(call, event.target.value as DecisionKind))}
            >
              {call.allowed.map((it) => (
                <option key={it} value={it}>
                  {WORDS[it]}
                </option>
              ))}
            </Select>
            {draft.kind === "edit" && (
              <JsonArea label="Arguments (JSON)" text={draft.text} onChange={(text) => set({ ...draft, text })} />
            )}
            {(draft.kind === "reject" || draft.kind === "respond") && (
              <Field
                label="Message"
                value={draft.text}
                onChange={(event) => set({ ...draft, text: event.target.value })}
              />
            )}
          </div>
        );
      })}
    </div>
  );
}
