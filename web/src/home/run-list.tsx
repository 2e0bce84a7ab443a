import { type ReactElement, useCallback, useEffect, useState } from "react";

import { api, comparison } from "@/lib/api";
import { when } from "@/lib/format";
import { navigate } from "@/lib/router";
import { isLive } from "@/lib/status";
import type { RunSummary, Runs } from "@/lib/types";
import { Button } from "@/ui/button";
import { Link } from "@/ui/link";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";
import { RunBadge } from "@/ui/status";

import { appendOlder, mergeNewest } from "./run-pages";

/** Number of runs per page. */
const PAGE = 20;

/** All runs, newest first. Two completed runs can be selected and compared. */
export function RunList(): ReactElement {
  const [listed, setListed] = useState<Runs | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [picked, setPicked] = useState<string[]>([]);
  const load = useCallback(() => {
    api.runs({ limit: PAGE }).then((newest) => {
      setListed((it) => mergeNewest(it, newest));
      setError(null);
    }, setError);
  }, []);
  const runs = listed?.runs;
  const next = listed?.next;
  const busy = runs?.some((it) => isLive(it.status)) ?? false;
  useEffect(() => {
    load();
    const timer = setInterval(load, busy ? 3000 : 15_000);
    return () => clearInterval(timer);
  }, [load, busy]);
  const more = (before: string): void =>
    void api.runs({ limit: PAGE, before }).then((earlier) => setListed((it) => appendOlder(it, earlier)), setError);
  const pick = (id: string): void =>
    setPicked((it) => (it.includes(id) ? it.filter((one) => one !== id) : [...it.slice(-1), id]));
  return (
    <Panel
      id="runs"
      title="Runs"
      inner="p-0"
      aside={
        <Button disabled={picked.length !== 2} onClick={() => navigate(comparison(picked[0]!, picked[1]!))}>
          Compare {picked.length === 2 ? "selected runs" : `(${picked.length} of 2 selected)`}
        </Button>
      }
    >
      {error !== null && (
        <div className="p-4">
          <Problem title="Could not load the runs" error={error} />
        </div>
      )}
      {runs?.length === 0 && (
        <p className="px-4 py-8 text-center text-sm text-dim">No runs yet. Enter a ticker to start one.</p>
      )}
      <ul className="divide-y divide-line">
        {runs?.map((it) => (
          <li key={it.id} className="flex items-start gap-3 px-4 py-2.5 hover:bg-sunk">
            <input
              type="checkbox"
              aria-label={`Select ${it.id} for comparison`}
              disabled={it.status !== "complete"}
              checked={picked.includes(it.id)}
              onChange={() => pick(it.id)}
              className="mt-1 size-4 shrink-0 accent-(--accent) disabled:opacity-40"
            />
            <Link href={`/runs/${encodeURIComponent(it.id)}`} className="min-w-0 flex-1">
              <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
                <b className="font-semibold">{it.ticker}</b>
                <RunBadge status={it.status} />
                <span className="ml-auto text-xs text-dim">{when(it.created_at)}</span>
              </span>
              <span className="mt-0.5 block truncate text-[13px] text-dim">{summary(it)}</span>
              <span className="block truncate font-mono text-xs text-dim">
                {it.id}
                {it.from && ` ← ${it.from}`}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {next && (
        <div className="border-t border-line p-3 text-center">
          <Button onClick={() => more(next)}>Earlier runs</Button>
        </div>
      )}
    </Panel>
  );
}

function summary(run: RunSummary): string {
  if (run.error) return run.error;
  const best = run.recommended?.[0];
  return best
    ? `${best.score} · ${best.title}`
    : run.status === "cancelled"
      ? "stopped before completion"
      : "no result yet";
}
