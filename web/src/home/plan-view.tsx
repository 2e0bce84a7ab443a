import { type ReactElement, useEffect, useState } from "react";

import { api } from "@/lib/api";
import { count, dollars, duration, short } from "@/lib/format";
import { roleName } from "@/lib/people";
import type { Config, Plan } from "@/lib/types";
import { SpendingTable } from "@/results/spending";

interface Props {
  config: Config;
  rounds: string;
  concurrency: string;
  baseline: boolean;
  scripted: boolean;
}

/** Estimate of calls, tokens, cost and time of a run. */
export function PlanView({ config, rounds, concurrency, baseline, scripted }: Props): ReactElement {
  const [plan, setPlan] = useState<Plan | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const [wanted, atOnce] = [Number(rounds), Number(concurrency)];
    if (![wanted, atOnce].every((it) => Number.isInteger(it) && it >= 1)) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      api.plan({ rounds: wanted, baseline, concurrency: atOnce }, stop.signal).then(
        (it) => {
          setPlan(it);
          setProblem(null);
        },
        (cause: unknown) => {
          if (!stop.signal.aborted) setProblem(cause instanceof Error ? cause.message : String(cause));
        },
      );
    }, 250);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [rounds, concurrency, baseline]);
  const facts = plan && [
    ["Calls", count(plan.all.calls)],
    ["Input tokens", short(plan.all.input_tokens)],
    ["Output tokens", short(plan.all.output_tokens)],
    ["Cost", scripted ? "none" : dollars(plan.all.dollars)],
    scripted ? ["Model", "scripted"] : ["Time", `about ${duration(plan.seconds)}`],
  ];
  return (
    <section aria-label="Estimate" className="border-t border-line bg-sunk/50 px-5 py-4 sm:px-6">
      {problem && <p className="text-sm text-bad">{problem}</p>}
      {facts ? (
        <dl className="grid grid-cols-3 gap-x-4 gap-y-2 sm:grid-cols-5">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt className="text-xs text-dim">{name}</dt>
              <dd className="font-semibold tabular-nums">{value}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <p className="text-sm text-dim">Estimating…</p>
      )}
      {plan && (
        <details className="mt-3">
          <summary className="text-[13px] text-dim">Estimate by role</summary>
          <div className="mt-2">
            <SpendingTable
              rows={plan.roles.map((it) => ({ ...it, name: roleName(config, it.role) }))}
              total={plan.all}
            />
          </div>
        </details>
      )}
    </section>
  );
}
