/** Leaderboard of the debates by score. */

import type { MakerScore } from "@/lib/events";

import type { DebateView } from "./view";

export interface BoardRow {
  /** Counted from 1; null without a score. */
  rank: number | null;
  debate: DebateView;
}

/** Returns the total of each decision maker, by id. */
export function makerTotals(
  scores: Readonly<Record<string, MakerScore>>,
  metrics: readonly string[],
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(scores).map(([id, score]) => [
      id,
      metrics.reduce((sum, metric) => sum + (typeof score[metric] === "number" ? score[metric] : 0), 0),
    ]),
  );
}

/** Sorts debates: scored ones by the rules of the final ranking, then running, then waiting, then failed ones. */
export function board(debates: readonly DebateView[], metrics: readonly string[]): BoardRow[] {
  const keyed = debates.map((debate) => {
    const totals = Object.values(makerTotals(debate.breakdown, metrics));
    const lowest = totals.length > 0 ? Math.min(...totals) : 0;
    const spread = totals.length > 0 ? Math.max(...totals) - lowest : 0;
    return { debate, key: [group(debate), -(debate.score ?? debate.round), -lowest, spread, moveNumber(debate.move)] };
  });
  keyed.sort((a, b) => compare(a.key, b.key));
  return keyed.map(({ debate }, idx) => ({ rank: debate.score === null ? null : idx + 1, debate }));
}

function group(debate: DebateView): number {
  if (debate.score !== null) return 0;
  return { running: 1, idle: 2, done: 2, failed: 3 }[debate.status];
}

function compare(a: number[], b: number[]): number {
  for (const [idx, it] of a.entries()) {
    const other = b[idx] ?? 0;
    if (it !== other) return it - other;
  }
  return 0;
}

/** Returns the number of a move: 12 for `m12`. */
export function moveNumber(move: string): number {
  return Number.parseInt(move.slice(1), 10) || 0;
}
