import type { ReactElement } from "react";

import { words } from "@/lib/format";
import { Badge } from "@/ui/badge";

const TEXTS: Record<string, string> = {
  defaulted: "some scores are neutral, none could be read",
  truncated: "debate shortened to fit the model",
  incomplete: "debate ended before its last round",
  not_isolated: "debated without a sandbox",
};

/** What a reader must know about a score. */
export function Marks({ marks }: { marks: string[] }): ReactElement | null {
  if (marks.length === 0) return null;
  return (
    <>
      {marks.map((it) => (
        <Badge key={it} tone="warn">
          {TEXTS[it] ?? words(it)}
        </Badge>
      ))}
    </>
  );
}
