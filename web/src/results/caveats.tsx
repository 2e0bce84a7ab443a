import type { ReactElement } from "react";

import { words } from "@/lib/format";
import { Badge } from "@/ui/badge";

const TEXTS: Record<string, string> = {
  defaulted: "some scores could not be read and are neutral",
  truncated: "debate shortened to fit the model’s context",
  incomplete: "debate ended early",
  not_isolated: "debated without isolation",
};

/** Caveats about a score. */
export function Caveats({ marks }: { marks: string[] }): ReactElement | null {
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
