import type { ReactElement } from "react";

import { placeWithNames } from "@/lib/people";
import type { Flag } from "@/lib/report";
import type { Config } from "@/lib/types";
import { reasonText } from "@/debate/thread";

interface Props {
  flags: Flag[];
  config: Config;
  withMove?: boolean;
}

/** Unsupported citations and numbers with their locations. They do not change scores. */
export function Flags({ flags, config, withMove = false }: Props): ReactElement {
  if (flags.length === 0) return <p className="text-sm text-dim">No flags: all numbers and citations are confirmed.</p>;
  return (
    <ul className="space-y-1 text-[13px]">
      {flags.map((it, idx) => (
        <li key={idx} className="flex flex-wrap gap-x-2">
          {withMove && <span className="font-mono text-dim">{it.place.document}</span>}
          <b className="font-mono font-medium text-bad">{it.text}</b>
          <span>{reasonText(it.reason)}</span>
          <span className="text-dim">
            {placeWithNames(config, it.place.part)}, sentence {it.place.sentence}
          </span>
        </li>
      ))}
    </ul>
  );
}
