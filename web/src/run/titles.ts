import type { Run } from "@/lib/types";

import type { RunView } from "./view";

/** Returns the title of a move, which is known as soon as an analyst has proposed it; otherwise an empty string. */
export function titleOf(move: string, run: Run, view: RunView): string {
  return view.debates[move]?.title || (run.titles[move] ?? "");
}
