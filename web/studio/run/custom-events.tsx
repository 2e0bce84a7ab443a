import type { ReactElement } from "react";

import { JsonView } from "@studio/ui/json-view";

import type { CustomEvent } from "./fold";

/** The newest custom events, which the nodes of the run emitted. */
export function CustomEvents({ events }: { events: readonly CustomEvent[] }): ReactElement {
  return (
    <ol
      className="max-h-96 space-y-2 overflow-auto"
      aria-label="Custom events, newest first"
      // A scrollable region must be reachable by keyboard.
      tabIndex={0}
    >
      {events.toReversed().map((it, idx) => (
        <li key={events.length - idx} className="rounded-md bg-sunk px-3 py-2">
          {it.path !== "" && <p className="text-xs text-dim">{it.path}</p>}
          <JsonView value={it.value} />
        </li>
      ))}
    </ol>
  );
}
