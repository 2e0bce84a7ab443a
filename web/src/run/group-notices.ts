import type { Notice } from "./view";

/**
 * Returns one notice per cause. Moves that have no score for the same reason share a notice, and so do repeated warnings;
 * of several budget warnings, only the last one is kept, because it includes the others.
 */
export function groupNotices(notices: readonly Notice[]): Notice[] {
  const groups = new Map<string, Notice[]>();
  for (const it of notices) {
    const key = it.kind === "budget" ? "budget" : `${it.kind} ${cause(it)}`;
    groups.set(key, [...(groups.get(key) ?? []), it]);
  }
  return [...groups.values()].map((all) => {
    const last = all.at(-1)!;
    if (all.length === 1 || last.kind === "budget") return last;
    const moves = all.flatMap((it) => it.move ?? []);
    const text =
      moves.length > 0 ? `${moves.join(", ")} have no score: ${cause(last)}` : `${last.text} (${all.length} times)`;
    return { ...last, text };
  });
}

/** Returns the text of a notice without the move that it concerns. */
function cause({ text, move }: Notice): string {
  return move === undefined ? text : text.replace(`${move} has no score: `, "");
}
