/** Differences between two programs, by line. */

export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
  /** Line number in the new program, or in the old one for a removed line. */
  number: number;
}

/** Programs with more lines are compared as a whole, because the comparison takes quadratic time. */
const MAX_LINES = 2000;

/** Returns the lines of both programs in order. The common lines are a longest common subsequence. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  const common = old.length > MAX_LINES || now.length > MAX_LINES ? [] : commonLengths(old, now);
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: "same", text: now[j]!, number: j + 1 });
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < old.length && (common[i + 1]?.[j] ?? 0) >= (common[i]?.[j + 1] ?? 0))) {
      found.push({ kind: "removed", text: old[i]!, number: i + 1 });
      i += 1;
    } else {
      found.push({ kind: "added", text: now[j]!, number: j + 1 });
      j += 1;
    }
  }
  return found;
}

const linesOf = (text: string): string[] => text.replace(/\n$/, "").split("\n");

/** Returns the length of the longest common subsequence of the lines from `i` and from `j` on. */
function commonLengths(old: readonly string[], now: readonly string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () => Array.from({ length: now.length + 1 }, () => 0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const [row, below] = [lengths[i]!, lengths[i + 1]!];
      row[j] = old[i] === now[j] ? below[j + 1]! + 1 : Math.max(below[j]!, row[j + 1]!);
    }
  }
  return lengths;
}
