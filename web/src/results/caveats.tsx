import type { ReactElement } from "react";

import { words } from "@/lib/format";
import { Badge } from "@/ui/badge";

const TEXTS: Record<string, string> = {
  defaulted: "some scores could not be read and are neutral",
  truncated: "debate shortened to fit the model’s context",
  incomplete: "debate ended early",
  cut_off: "turns cut off at the model’s token limit",
};

/** Caveats about a score. The banner of the results states missing isolation once for all moves. */
export function Caveats({ marks }: { marks: string[] }): ReactElement {
  const own = marks.filter((it) => it !== "not_isolated");
  return (
    <>
      {own.map((it) => (
        <Badge key={it} tone="warn">
          {TEXTS[it] ?? words(it)}
        </Badge>
      ))}
    </>
  );
}
