import { CloudOff, Info, TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import type { Run } from "@/lib/types";

import { groupNotices } from "./group-notices";
import type { Notice, RunView } from "./view";

/** Notices about a run: lost connection, failure, warnings. */
export function Notices({ run, view, connected }: { run: Run; view: RunView; connected: boolean }): ReactElement {
  const failure = run.error ?? (run.status === "error" ? view.error : null);
  // The results of a completed run already show the isolation.
  const known = run.status === "complete" ? ["error", "degraded"] : ["error"];
  const rest = groupNotices(view.notices.filter((it) => !known.includes(it.kind)));
  return (
    <div className="space-y-2 empty:hidden">
      {!connected && (
        <p role="status" className="flex items-center gap-2 rounded-lg bg-warn-soft px-4 py-2.5 text-sm text-warn">
          <CloudOff aria-hidden className="size-4 shrink-0" />
          Connection lost, reconnecting. The run continues, and no events are lost.
        </p>
      )}
      {failure && run.status === "error" && (
        <div role="alert" className="rounded-lg border border-bad/40 bg-bad-soft px-4 py-3 text-sm">
          <p className="flex items-center gap-2 font-semibold text-bad">
            <TriangleAlert aria-hidden className="size-4 shrink-0" /> The run failed
          </p>
          <p className="mt-1 whitespace-pre-wrap">{failure}</p>
          <p className="mt-1 text-dim">Completed work is saved. You can resume the run without paying for it again.</p>
        </div>
      )}
      {rest.length === 1 && (
        <div className="flex gap-2 rounded-lg border border-line bg-panel px-4 py-2 text-[13px]">
          <Info aria-hidden className="mt-0.5 size-4 shrink-0 text-dim" /> <NoticeText notice={rest[0]!} />
        </div>
      )}
      {rest.length > 1 && (
        <details className="rounded-lg border border-line bg-panel text-[13px]" open={rest.length <= 3}>
          <summary className="flex items-center gap-2 px-4 py-2 text-dim">
            <Info aria-hidden className="size-4 shrink-0" />
            {rest.length} kinds of notices about this run
          </summary>
          <ul className="space-y-1 px-4 pb-3 pl-10">
            {rest.map((it) => (
              <li key={it.seq}>
                <NoticeText notice={it} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** A notice in one line, with optional details. */
function NoticeText({ notice: { text, detail } }: { notice: Notice }): ReactElement {
  if (!detail) return <span>{text}</span>;
  return (
    <details className="min-w-0">
      <summary>
        {text} <span className="text-accent underline underline-offset-2">Why</span>
      </summary>
      <p className="mt-1 text-dim">{detail}</p>
    </details>
  );
}
