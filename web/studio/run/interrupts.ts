/** Interrupts: questions of a graph that wait for answers. */

import type { Interrupt, Json } from "@studio/api/types";
import { parseJson } from "@studio/form/schema";
import type { Checkpoint } from "@studio/history/checkpoint";

import { type DecisionDraft, decisionsOf, reviewedCalls } from "./tool-review";

export interface PendingInterrupt extends Interrupt {
  /** The node that asks. */
  node: string;
}

export function pendingInterrupts(checkpoint: Checkpoint | null): PendingInterrupt[] {
  const tasks = checkpoint?.tasks ?? [];
  return tasks.flatMap((task) => task.interrupts.map((it) => ({ ...it, node: task.name })));
}

/** Returns whether a run can continue without an answer: nodes are pending, and none of them asks a question. */
export function isPaused(checkpoint: Checkpoint): boolean {
  return checkpoint.next.length > 0 && pendingInterrupts(checkpoint).length === 0;
}

/** An answer that the user enters. */
export interface Answer {
  text: string;
  json: boolean;
  /** Decisions on tool calls, if the question is a review of tool calls. */
  decisions: DecisionDraft[];
}

export const emptyAnswer: Answer = { text: "", json: false, decisions: [] };

/** Returns the answers by interrupt id, or the id of the first invalid answer with the problem. */
export function answersOf(
  interrupts: readonly PendingInterrupt[],
  drafts: Readonly<Record<string, Answer>>,
): { value: Json } | { id: string; problem: string } {
  const answers: Record<string, Json> = {};
  for (const { id, value } of interrupts) {
    const answer = readAnswer(value, drafts[id] ?? emptyAnswer);
    if ("problem" in answer) return { id, problem: answer.problem };
    answers[id] = answer.value;
  }
  return { value: answers };
}

function readAnswer(question: Json, draft: Answer): { value: Json } | { problem: string } {
  const calls = reviewedCalls(question);
  if (calls) return decisionsOf(calls, draft.decisions);
  return draft.json ? parseJson(draft.text) : { value: draft.text };
}
