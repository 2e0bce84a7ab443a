import { Trash2 } from "lucide-react";
import { type ReactElement, useCallback, useEffect, useState } from "react";

import { api, comparison } from "@/lib/api";
import { dollars, duration, short, when } from "@/lib/format";
import { navigate } from "@/lib/router";
import { isLive } from "@/lib/status";
import type { RunSummary, Runs } from "@/lib/types";
import { Button } from "@/ui/button";
import { ConfirmButton } from "@/ui/confirm-button";
import { Link } from "@/ui/link";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";
import { RunBadge } from "@/ui/status";

import { matches, secondsOf } from "./run-filter";
import { appendOlder, mergeNewest } from "./run-pages";

/** Number of runs per page. */
const PAGE = 20;

/** All runs, newest first. Two completed runs can be selected and compared. */
export function RunList(): ReactElement {
  const [listed, setListed] = useState<Runs | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [picked, setPicked] = useState<string[]>([]);
  const [filter, setFilter] = useState("");
  const load = useCallback(() => {
    api.runs({ limit: PAGE }).then((newest) => {
      setListed((it) => mergeNewest(it, newest));
      setError(null);
    }, setError);
  }, []);
  const runs = listed?.runs;
  const shown = runs?.filter((it) => matches(it, filter));
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
  const remove = (id: string): void => {
    setPicked((it) => it.filter((one) => one !== id));
    api
      .delete(id)
      .then(() => setListed((it) => it && { ...it, runs: it.runs.filter((one) => one.id !== id) }))
      .catch(setError);
  };
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
          <Problem title="Could not load or delete a run" error={error} />
        </div>
      )}
      {runs?.length === 0 && (
        <p className="px-4 py-8 text-center text-sm text-dim">No runs yet. Enter a ticker to start one.</p>
      )}
      {runs && runs.length > 3 && (
        <div className="border-b border-line px-4 py-2">
          <label htmlFor="filter-runs" className="sr-only">
            Filter the runs
          </label>
          <input
            id="filter-runs"
            type="search"
            placeholder="Filter by ticker, status or move"
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
            className="h-8 w-full rounded-md border border-edge bg-panel px-2.5 text-[13px] placeholder:text-dim"
          />
        </div>
      )}
      {shown?.length === 0 && runs!.length > 0 && (
        <p className="px-4 py-8 text-center text-sm text-dim">No listed run matches the filter.</p>
      )}
      <ul className="divide-y divide-line">
        {shown?.map((it) => (
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
              <span className="block truncate text-xs text-dim">
                {facts(it)}
                <span className="font-mono">
                  {it.id}
                  {it.from && ` ← ${it.from}`}
                </span>
              </span>
            </Link>
            {!isLive(it.status) && (
              <ConfirmButton
                look="ghost"
                size="icon"
                className="size-8 text-dim"
                aria-label={`Delete ${it.id}`}
                question={`Delete ${it.id}?`}
                confirm="Delete"
                onConfirm={() => remove(it.id)}
              >
                <Trash2 aria-hidden />
              </ConfirmButton>
            )}
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

/** Duration, tokens and cost of a run that has ended. */
function facts(run: RunSummary): string {
  const seconds = secondsOf(run);
  const parts = [
    seconds !== null && duration(seconds),
    run.tokens !== null && `${short(run.tokens)} tokens`,
    run.dollars !== null && dollars(run.dollars),
  ];
  return parts
    .filter((it) => it !== false)
    .map((it) => `${it} · `)
    .join("");
}
