/** Those who take part in a run. */

import type { Config, Person } from "./types";

/** All who write something before the debates, in their order. */
export const writers = ({ synthesizers, inferences, analysts }: Config): Person[] => [
  ...synthesizers,
  ...inferences,
  ...analysts,
];

const COLORS = ["var(--dm-0)", "var(--dm-1)", "var(--dm-2)"] as const;

/** The colour of a decision maker by its place among them. */
export const makerColor = (idx: number): string => COLORS[idx % COLORS.length]!;
