/** Personas of a run. */

import type { Config, Person } from "./types";

/** Returns all personas that work before the debates, in order. */
export const writers = ({ synthesizers, inferences, analysts }: Config): Person[] => [
  ...synthesizers,
  ...inferences,
  ...analysts,
];

const COLORS = ["var(--dm-0)", "var(--dm-1)", "var(--dm-2)"] as const;

/** Returns the colour of a decision maker by index. */
export const makerColor = (idx: number): string => COLORS[idx % COLORS.length]!;

const agents = (config: Config): Person[] => [...writers(config), config.critic, ...config.decision_makers];

/** Returns the name of an agent or a metric. An unknown identifier is returned unchanged. */
export function displayName(config: Config, id: string): string {
  return [...agents(config), ...config.metrics].find((it) => it.id === id)?.name ?? id;
}

/** Returns the first word of a name, where there is no room for more. */
export const shortName = ({ name }: Person): string => name.split(" ")[0] ?? name;

/** Returns the name of a role such as `D1 scoring`. */
export function roleName(config: Config, role: string): string {
  const [, id, task] = /^(.*) (scoring|summaries)$/.exec(role) ?? [];
  return id === undefined ? displayName(config, role) : `${displayName(config, id)}, ${task}`;
}

/**
 * Replaces the identifiers in the name of a location with names: those of agents, as in `m3, round 2, critic to D1`,
 * and those of conversations, as in `i1, round 2, critic`.
 */
export function placeWithNames(config: Config, place: string): string {
  return place.replace(/\w+/g, (id) => {
    const maker = /^i\d+$/.test(id) ? config.decision_makers[Number(id.slice(1)) - 1] : undefined;
    return maker ? `debate with ${maker.name}` : (agents(config).find((it) => it.id === id)?.name ?? id);
  });
}
