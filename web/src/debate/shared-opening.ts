import type { Turn } from "@/lib/report";

/** Returns the critic's turn if several conversations of a round start with the same text; otherwise null. */
export function sharedOpening(threads: readonly Turn[][]): Turn | null {
  const first = threads[0]?.[0];
  if (!first || first.role !== "critic" || threads.length < 2) return null;
  const same = threads.every((turns) => turns[0]?.role === "critic" && turns[0].content === first.content);
  return same ? first : null;
}
