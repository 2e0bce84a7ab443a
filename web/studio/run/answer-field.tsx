import type { ReactElement } from "react";

import { Area, Check } from "@/ui/field";
import { JsonView } from "@studio/ui/json-view";

import { type Answer, type PendingInterrupt, emptyAnswer } from "./interrupts";
import { reviewedCalls } from "./tool-review";
import { ToolReviewForm } from "./tool-review-form";

interface Props {
  interrupt: PendingInterrupt;
  answer: Answer | undefined;
  /** Problem with the answer. */
  problem: string | null;
  onChange: (answer: Answer) => void;
}

/** One question with the controls for its answer. */
export function AnswerField({ interrupt, answer = emptyAnswer, problem, onChange }: Props): ReactElement {
  const calls = reviewedCalls(interrupt.value);
  return (
    <fieldset className="space-y-3">
      <legend className="mb-2 text-[13px] text-dim">
        Question of <b className="font-medium text-ink">{interrupt.node}</b>
      </legend>
      {calls ? (
        <ToolReviewForm
          calls={calls}
          drafts={answer.decisions}
          onChange={(decisions) => onChange({ ...answer, decisions })}
        />
      ) : (
        <>
          <div className="rounded-md bg-sunk px-3 py-2">
            <JsonView value={interrupt.value} />
          </div>
          <Area
            label="Answer"
            rows={2}
            value={answer.text}
            aria-invalid={problem !== null || undefined}
            onChange={(event) => onChange({ ...answer, text: event.target.value })}
          />
          <Check
            label="The answer is JSON"
            hint="Otherwise it is sent as text"
            checked={answer.json}
            onChange={(event) => onChange({ ...answer, json: event.target.checked })}
          />
        </>
      )}
      {problem !== null && (
        <p role="alert" className="text-[13px] text-bad">
          Answer: {problem}
        </p>
      )}
    </fieldset>
  );
}
