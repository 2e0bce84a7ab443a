import type { ReactElement } from "react";

import type { Json } from "@studio/api/types";
import { JsonView } from "@studio/ui/json-view";

import type { Change } from "./diff";

/** Differences between two states, with the old and the new values. */
export function Changes({ changes, none }: { changes: readonly Change[]; none: string }): ReactElement {
  if (changes.length === 0) return <p className="text-sm text-dim">{none}</p>;
  return (
    <ul className="space-y-2.5">
      {changes.map((it) => (
        <li key={it.path}>
          <p className="font-mono text-[13px] text-accent">{it.path}</p>
          {it.kind !== "added" && <Value sign="−" word="before" className="bg-bad-soft" value={it.before} />}
          {it.kind !== "removed" && <Value sign="+" word="after" className="bg-good-soft" value={it.after} />}
        </li>
      ))}
    </ul>
  );
}

function Value(props: { sign: string; word: string; className: string; value: Json }): ReactElement {
  return (
    <div className={`mt-1 flex gap-2 rounded px-2 py-1 ${props.className}`}>
      <span aria-hidden className="font-mono text-[13px]">
        {props.sign}
      </span>
      <span className="sr-only">{props.word}</span>
      <div className="min-w-0">
        <JsonView value={props.value} depth={1} />
      </div>
    </div>
  );
}
