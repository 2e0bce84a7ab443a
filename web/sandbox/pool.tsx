import type { ReactElement } from "react";

import { count, duration } from "@/lib/format";
import { Panel } from "@/ui/panel";

import type { Stats } from "./api";

/** Gauges of the sandbox pool and numbers of jobs by status. */
export function Pool({ stats: { pool, jobs, uptime_seconds } }: { stats: Stats }): ReactElement {
  const facts = [
    ["Highest use", `${pool.most_in_use} of ${pool.size}`],
    ["Executions", count(pool.executions)],
    ["Warm starts", `${count(pool.warm)} of ${count(pool.warm + pool.cold)}`],
    ["Wait, median", `${pool.acquire_p50_ms.toFixed(1)} ms`],
    ["Wait, 95 %", `${pool.acquire_p95_ms.toFixed(1)} ms`],
    ["Uptime", duration(uptime_seconds)],
  ];
  const byStatus = Object.entries(jobs).filter(([, number]) => number > 0);
  return (
    <Panel id="pool" title="Sandbox pool">
      <div className="grid gap-x-6 gap-y-3 sm:grid-cols-3">
        <Gauge name="In use" value={pool.in_use} of={pool.size} tone="var(--accent)" />
        <Gauge name="Ready" value={pool.ready} of={pool.size} tone="var(--good)" />
        <Gauge name="Alive" value={pool.alive} of={pool.size} tone="var(--dm-2)" />
      </div>
      <dl className="mt-4 grid grid-cols-3 gap-x-4 gap-y-2">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt className="text-xs text-dim">{name}</dt>
            <dd className="text-sm font-semibold tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      {byStatus.length > 0 && (
        <p className="mt-3 border-t border-line pt-2 text-[13px] text-dim">
          Jobs: {byStatus.map(([status, number]) => `${count(number)} ${status}`).join(", ")}
        </p>
      )}
    </Panel>
  );
}

interface GaugeProps {
  name: string;
  value: number;
  of: number;
  tone: string;
}

function Gauge({ name, value, of, tone }: GaugeProps): ReactElement {
  return (
    <div>
      <p className="mb-1 flex justify-between text-[13px]">
        <span>{name}</span>
        <b className="tabular-nums">
          {value} <span className="font-normal text-dim">of {of}</span>
        </b>
      </p>
      <div
        role="meter"
        aria-label={`Sandboxes: ${name.toLowerCase()}`}
        aria-valuemin={0}
        aria-valuemax={of}
        aria-valuenow={Math.min(value, of)}
        className="h-2 overflow-hidden rounded-full bg-sunk"
      >
        <div
          className="h-full rounded-full transition-[width] duration-500"
          style={{ width: `${Math.min(1, value / Math.max(1, of)) * 100}%`, background: tone }}
        />
      </div>
    </div>
  );
}
