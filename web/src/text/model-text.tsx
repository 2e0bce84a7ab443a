import { Fragment, type ReactElement, type ReactNode } from "react";

import { Citation } from "./citation";
import { tokens } from "./tokens";

/** Text written by a model, rendered as plain text with citations highlighted and doubtful numbers underlined. */
export function ModelText({ text, doubts = [] }: { text: string; doubts?: readonly string[] }): ReactElement {
  return (
    <>
      {tokens(text).map((it, idx) =>
        it.kind === "citation" ? (
          <Citation key={idx} id={it.id} />
        ) : (
          <Fragment key={idx}>{underline(it.text, doubts)}</Fragment>
        ),
      )}
    </>
  );
}

function underline(text: string, doubts: readonly string[]): ReactNode {
  const doubt = doubts.find((it) => text.includes(it));
  if (doubt === undefined) return text;
  const at = text.indexOf(doubt);
  return (
    <>
      {text.slice(0, at)}
      <span className="underline decoration-(--bad) decoration-wavy underline-offset-3">{doubt}</span>
      {underline(text.slice(at + doubt.length), doubts)}
    </>
  );
}
