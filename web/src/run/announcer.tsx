import { type ReactElement, useEffect, useRef, useState } from "react";

import { STAGES } from "@/graph/scene";
import type { Run } from "@/lib/types";

import type { RunView } from "./view";

/** Minimum interval between announcements in milliseconds. */
const PACE = 8000;

/** Announces the progress of the run to screen readers: status changes at once, scores at intervals. */
export function Announcer({ run, view, moves }: { run: Run; view: RunView; moves: number }): ReactElement {
  const text = sentence(run, view, moves);
  const [spoken, setSpoken] = useState(text);
  const latest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    latest.current = text;
    if (text === spoken) return;
    if (run.status !== "running") {
      clearTimeout(timer.current);
      timer.current = undefined;
      setSpoken(text);
      return;
    }
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      setSpoken(latest.current);
    }, PACE);
  }, [text, spoken, run.status]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <p role="status" aria-live="polite" className="sr-only">
      {spoken}
    </p>
  );
}

function sentence(run: Run, view: RunView, moves: number): string {
  const ends: Partial<Record<Run["status"], string>> = {
    queued: "The run is queued.",
    waiting: "The run is waiting for a review of its moves.",
    complete: "The run is complete. The results are available.",
    error: "The run failed.",
    cancelled: "The run was cancelled.",
  };
  const end = ends[run.status];
  if (end) return end;
  const scored = Object.values(view.debates).filter((it) => it.score !== null).length;
  if (scored > 0) return `${scored} of ${moves} moves scored.`;
  const layer = (["sandbox", "2", "1", "0"] as const).find((it) => view.layers[it]?.status === "running");
  return layer ? `Layer ${STAGES[layer]} is running.` : "The run is starting.";
}
