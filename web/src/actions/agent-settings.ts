/** Settings of an agent that a fork can change. */

import type { Agent, Config } from "@/lib/types";

export interface AgentDraft {
  id: string;
  persona: string;
  model: string;
  temperature: string;
}

interface ConfiguredAgent extends Agent {
  /** Path of the persona in the configuration. */
  path: string;
}

/** Returns all agents of a run. */
export function agentsOf({ synthesizers, inferences, analysts, critic, decision_makers }: Config): ConfiguredAgent[] {
  const at = (path: (it: Agent, idx: number) => string, agents: Agent[]): ConfiguredAgent[] =>
    agents.map((it, idx) => ({ ...it, path: path(it, idx) }));
  return [
    ...at(() => "critic", [critic]),
    ...at((it) => it.id, decision_makers),
    ...at((it) => it.id, analysts),
    ...at((_, idx) => `inferences.F${idx + 1}`, inferences),
    ...at((_, idx) => `synthesizers.${idx === 0 ? "financial" : "news"}`, synthesizers),
  ];
}

/** Returns the configured settings of an agent as a draft. */
export function draftOf(agent: Agent): AgentDraft {
  const { id, system_prompt, model, temperature } = agent;
  return { id, persona: system_prompt, model, temperature: String(temperature) };
}

/** Returns the settings that a draft changes, each as `path=value`. */
export function changedSettings(config: Config, draft: AgentDraft): string[] {
  const agent = agentsOf(config).find((it) => it.id === draft.id);
  if (!agent) return [];
  const before = draftOf(agent);
  const changes: [keyof AgentDraft, string][] = [
    ["persona", `${agent.path}.persona`],
    ["model", `models.${agent.id}.model`],
    ["temperature", `models.${agent.id}.temperature`],
  ];
  return changes
    .filter(([field]) => draft[field].trim() !== "" && draft[field] !== before[field])
    .map(([field, path]) => `${path}=${draft[field].trim()}`);
}
