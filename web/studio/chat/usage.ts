/** Tokens and cost of model calls, where messages report them. */

import { count, dollars } from "@/lib/format";
import { isObject } from "@studio/api/json";
import type { Json } from "@studio/api/types";

import type { Message } from "./messages";

export interface Usage {
  input: number;
  output: number;
  /** Cost in dollars; null if no message reports one. */
  cost: number | null;
}

/** Returns the total usage of messages, or null if none reports its usage. */
export function totalUsage(messages: readonly Message[]): Usage | null {
  const all = messages.map(usageOf).filter((it) => it !== null);
  if (all.length === 0) return null;
  return all.reduce((sum, it) => ({
    input: sum.input + it.input,
    output: sum.output + it.output,
    cost: sum.cost === null && it.cost === null ? null : (sum.cost ?? 0) + (it.cost ?? 0),
  }));
}

/** Reads `usage_metadata` of LangChain's messages, or `usage` of messages of this project. */
export function usageOf(message: Message): Usage | null {
  const usage = [message["usage_metadata"], message["usage"]].find(isObject);
  if (!usage) return null;
  const metadata = message["response_metadata"];
  const cost = [usage["cost"], usage["total_cost"], isObject(metadata) ? metadata["cost"] : undefined].find(isNumber);
  return {
    input: [usage["input_tokens"], usage["input"]].find(isNumber) ?? 0,
    output: [usage["output_tokens"], usage["output"]].find(isNumber) ?? 0,
    cost: cost ?? null,
  };
}

/** Describes a usage: `1,200 tokens in, 30 out · $0.05`. */
export function usageText({ input, output, cost }: Usage): string {
  const tokens = `${count(input)} tokens in, ${count(output)} out`;
  return cost === null ? tokens : `${tokens} · ${dollars(cost)}`;
}

function isNumber(value: Json | undefined): value is number {
  return typeof value === "number";
}
