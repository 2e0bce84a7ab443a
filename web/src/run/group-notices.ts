import type { Notice } from "./view";

/**
 * Returns one notice per cause: one for all moves that have no score for the same reason, one for all moves whose
 * debates run with the same weaker isolation, and one for each warning that is repeated. Of several budget warnings,
 * only the last one is kept, because it includes the others.
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
    const moves = [...new Set(all.flatMap((it) => it.move ?? []))];
    if (moves.length === 0) return { ...last, text: `${last.text} (${all.length} times)` };
    if (moves.length === 1) return last;
    const predicate = cause(last)
      .replace(/^has /, "have ")
      .replace(/^runs /, "run ");
    return { ...last, text: `${moves.join(", ")} ${predicate}` };
  });
}

/** Returns the text of a notice without the move that it concerns. */
function cause({ text, move }: Notice): string {
  return move === undefined ? text : text.replace(`${move} `, "");
}
