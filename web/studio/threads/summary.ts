/** Texts by which a list identifies threads. */

import type { Thread } from "@studio/api/types";
import { messagesIn, textOf } from "@studio/chat/messages";
import { totalUsage, usageText } from "@studio/chat/usage";
import { brief } from "@studio/ui/json-view";

/** Returns the first message of the thread, or its fields that are not empty, or its id. */
export function summaryOf(thread: Thread): string {
  const values = thread.values ?? {};
  const first = messagesIn(values)[0];
  if (first) return brief(textOf(first));
  const fields = Object.entries(values).filter(([, value]) => !isEmpty(value));
  return brief(fields.map(([name, value]) => `${name}: ${brief(value)}`).join(", "), 160) || thread.thread_id;
}

/** Describes the tokens and the cost of the messages in the newest state; null if none reports them. */
export function usageTextOf(thread: Thread): string | null {
  const usage = totalUsage(messagesIn(thread.values ?? {}));
  return usage && usageText(usage);
}

function isEmpty(value: unknown): boolean {
  return value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
}
