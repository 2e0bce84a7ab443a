import { type ReactElement, useEffect, useState } from "react";

import { count, dollars, duration, percent, short } from "@/lib/format";
import { isLive } from "@/lib/status";
import type { Run } from "@/lib/types";

import { type Sample, fractionDone, secondsLeft } from "./estimate";

/** Progress, calls, tokens, cost and time of a run. */
export function Meters({ run, samples }: { run: Run; samples: Sample[] }): ReactElement {
  const live = isLive(run.status);
  const now = useNow(live);
  const end = run.ended_at ? Date.parse(run.ended_at) : live ? now : Date.parse(run.updated_at);
  const elapsed = Math.max(0, (end - Date.parse(run.created_at)) / 1000);
  const left = live ? secondsLeft(samples, run.planned_calls) : null;
  const done = run.status === "complete" ? 1 : fractionDone(run.usage.calls, run.planned_calls);
  return (
    <section aria-label="Progress and cost" className="rounded-xl border border-line bg-panel shadow-(--shadow)">
      <div
        role="progressbar"
        aria-label="Calls answered"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(done * 100)}
        className="h-1 overflow-hidden rounded-t-xl bg-sunk"
      >
        <div className="h-full bg-accent transition-[width] duration-700" style={{ width: `${done * 100}%` }} />
      </div>
      <dl className="grid grid-cols-3 gap-x-4 gap-y-3 px-4 py-3 sm:grid-cols-6">
        <Meter name="Calls" value={count(run.usage.calls)} note={`of ${count(run.planned_calls)}`} />
        <Meter name="Input tokens" value={short(run.usage.input_tokens)} note={cached(run)} />
        <Meter name="Output tokens" value={short(run.usage.output_tokens)} />
        <Meter
          name="Cost"
          value={dollars(run.usage.dollars)}
          note={run.settings.provider === "scripted" ? "scripted" : undefined}
        />
        <Meter name="Elapsed" value={duration(elapsed)} />
        <Meter name="Time left" value={live ? (left === null ? "estimating…" : `about ${duration(left)}`) : "–"} />
      </dl>
    </section>
  );
}

function cached({ usage }: Run): string | undefined {
  return usage.cached_tokens > 0 ? `${percent(usage.cached_tokens / usage.input_tokens)} from cache` : undefined;
}

function Meter({ name, value, note }: { name: string; value: string; note?: string | undefined }): ReactElement {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-dim">{name}</dt>
      <dd className="truncate font-semibold tabular-nums">
        {value} {note && <span className="text-xs font-normal text-dim">{note}</span>}
      </dd>
    </div>
  );
}

function useNow(ticking: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}
