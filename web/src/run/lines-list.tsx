import type { ReactElement } from "react";

import type { RunView } from "./view";

/** Recent events, newest first. */
export function Lines({ view }: { view: RunView }): ReactElement {
  if (view.lines.length === 0) return <p className="py-2 text-sm text-dim">Nothing yet.</p>;
  return (
    <ol className="text-[13px]">
      {view.lines.map((it) => (
        <li key={it.seq} className="flex items-baseline gap-3 py-0.5">
          <span className="w-9 shrink-0 text-right font-mono text-xs text-dim tabular-nums">{it.seq}</span>
          {it.move && <span className="w-8 shrink-0 font-mono text-xs font-semibold">{it.move}</span>}
          <span className="min-w-0 truncate">{it.text}</span>
        </li>
      ))}
    </ol>
  );
}
