/** Tokens and cost of runs, from the messages that their steps added to the state. */

import { type Message, messagesIn } from "@studio/chat/messages";
import { type Usage, totalUsage } from "@studio/chat/usage";
import type { Checkpoint } from "@studio/history/checkpoint";

/** Returns the usage of each run that has added messages with a usage, by the id of the run. */
export function usageByRun(all: readonly Checkpoint[]): Map<string, Usage> {
  const byId = new Map(all.map((it) => [it.id, it]));
  const added = new Map<string, Message[]>();
  for (const it of all) {
    const parent = byId.get(it.parent ?? "");
    // The step after `__start__` adds the input, whose messages may come from earlier conversations.
    if (it.run === null || it.source !== "loop" || !parent || parent.next.includes("__start__")) continue;
    added.set(it.run, [...(added.get(it.run) ?? []), ...addedMessages(parent, it)]);
  }
  const usages = new Map<string, Usage>();
  for (const [run, messages] of added) {
    const usage = totalUsage(messages);
    if (usage) usages.set(run, usage);
  }
  return usages;
}

/** Returns the messages of a checkpoint that its parent does not have. */
function addedMessages(parent: Checkpoint, checkpoint: Checkpoint): Message[] {
  const known = new Set(messagesIn(parent.values).map(keyOf));
  return messagesIn(checkpoint.values).filter((it) => !known.has(keyOf(it)));
}

/** Identifies a message within a state. */
function keyOf(message: Message): string {
  return typeof message["id"] === "string" ? message["id"] : JSON.stringify(message);
}
