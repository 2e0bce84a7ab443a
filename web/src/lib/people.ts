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
