/** Reviews of tool calls: questions in the format of LangChain's human-in-the-loop middleware. */

import { isObject } from "@studio/api/json";
import type { Json } from "@studio/api/types";
import { parseJson } from "@studio/form/schema";

export type DecisionKind = "approve" | "edit" | "reject" | "respond";

const KINDS: readonly DecisionKind[] = ["approve", "edit", "reject", "respond"];

/** A tool call that waits for a decision. */
export interface ReviewedCall {
  name: string;
  args: Json;
  description: string | null;
  allowed: DecisionKind[];
}

/** A decision that the user enters. */
export interface DecisionDraft {
  kind: DecisionKind;
  /** The edited arguments as JSON, or a message. */
  text: string;
}

/** Returns the tool calls that a question is about, or null if the question has another format. */
export function reviewedCalls(question: Json): ReviewedCall[] | null {
  if (!isObject(question)) return null;
  const { action_requests: requests, review_configs: configs } = question;
  if (!Array.isArray(requests) || requests.length === 0 || !requests.every(isObject)) return null;
  return requests.map((it, at) => {
    const config = Array.isArray(configs) ? configs[at] : null;
    const listed = isObject(config) ? config["allowed_decisions"] : null;
    const allowed = KINDS.filter((kind) => !Array.isArray(listed) || listed.includes(kind));
    return {
      name: typeof it["name"] === "string" ? it["name"] : "unnamed tool",
      args: it["args"] ?? {},
      description: typeof it["description"] === "string" ? it["description"] : null,
      allowed: allowed.length > 0 ? allowed : [...KINDS],
    };
  });
}

export function initialDecision(call: ReviewedCall): DecisionDraft {
  return draftOf(call, call.allowed[0]!);
}

/** Returns the draft of another kind of decision. The arguments are offered for editing. */
export function draftOf(call: ReviewedCall, kind: DecisionKind): DecisionDraft {
  return { kind, text: kind === "edit" ? JSON.stringify(call.args, null, 2) : "" };
}

/** Returns the answer to a review. */
export function decisionsOf(
  calls: readonly ReviewedCall[],
  drafts: readonly DecisionDraft[],
): { value: Json } | { problem: string } {
  const decisions: Json[] = [];
  for (const [at, call] of calls.entries()) {
    const { kind, text } = drafts[at] ?? initialDecision(call);
    if (kind === "approve") decisions.push({ type: kind });
    else if (kind === "edit") {
      const args = parseJson(text);
      if ("problem" in args) return { problem: `arguments of ${call.name}: ${args.problem}` };
      decisions.push({ type: kind, edited_action: { name: call.name, args: args.value } });
    } else decisions.push({ type: kind, ...(text !== "" && { message: text }) });
  }
  return { value: { decisions } };
}
