/** Assistants: graphs with a configuration. Every graph has a default assistant. */

import type { Assistant } from "@studio/api/types";

const isDefault = (it: Assistant): boolean => it.metadata["created_by"] === "system" || it.name === it.graph_id;

/** Returns the name of an assistant in URLs: the name of its graph for a default assistant, otherwise its id. */
export const slugOf = (it: Assistant): string => (isDefault(it) ? it.graph_id : it.assistant_id);

export const titleOf = (it: Assistant): string => (isDefault(it) ? it.graph_id : `${it.name} (${it.graph_id})`);

/** Returns the assistant that a URL names, or the first one if it names none. */
export function findAssistant(all: readonly Assistant[], slug: string | null): Assistant | null {
  const found = slug === null ? all[0] : all.find((it) => slugOf(it) === slug || it.assistant_id === slug);
  return found ?? null;
}
