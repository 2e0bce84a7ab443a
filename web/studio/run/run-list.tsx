import { type ReactElement, useMemo, useState } from "react";

import { useDebounced } from "@/lib/use-debounced";
import { useFetched } from "@/lib/use-fetched";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Problem } from "@/ui/problem";
import type { Run } from "@studio/api/types";
import { usageText } from "@studio/chat/usage";
import { brief } from "@studio/ui/json-view";
import { shortTime } from "@studio/ui/short-time";
import { StatusBadge } from "@studio/ui/status-badge";

import { usageByRun } from "./run-usage";
import { searchRuns } from "./search";
import { RUNS, type ThreadView } from "./use-thread";

/** The runs of the thread, newest first. Choosing one selects its last checkpoint. */
export function RunList({
  view,
  onSelect,
}: {
  view: ThreadView | null;
  onSelect: (checkpoint: string) => void;
}): ReactElement {
  const [query, setQuery] = useState("");
  const [limit, setLimit] = useState(RUNS);
  const sent = useDebounced(query.trim());
  const thread = view?.thread.thread_id ?? "";
  // The newest runs are loaded with the thread.
  const isLoaded = sent === "" && limit === RUNS;
  const searched = useFetched(
    isLoaded ? null : `runs ${thread} ${limit} ${sent}`,
    (signal) => searchRuns(thread, sent, limit, signal),
    `${view?.runs[0]?.run_id} ${view?.runs[0]?.status}`,
  );
  const checkpoints = view?.checkpoints;
  const usages = useMemo(() => usageByRun(checkpoints ?? []), [checkpoints]);
  if (!view || view.runs.length === 0) {
    return <p className="py-4 text-center text-sm text-dim">This thread has no runs yet.</p>;
  }
  const found = isLoaded ? { items: view.runs, hasMore: view.runs.length === RUNS } : searched.value;
  return (
    <div className="space-y-3">
      <Field
        label="Search the runs"
        type="search"
        placeholder="Input, status or id"
        value={query}
        onChange={(event) => {
          setQuery(event.target.value);
          setLimit(RUNS);
        }}
      />
      {searched.error !== null && <Problem title="The runs could not be loaded" error={searched.error} />}
      <ul className="divide-y divide-line">
        {found?.items.map((it) => {
          const usage = usages.get(it.run_id);
          const last = view.checkpoints.findLast((checkpoint) => checkpoint.run === it.run_id);
          return (
            <li key={it.run_id}>
              <button
                type="button"
                disabled={!last}
                onClick={() => last && onSelect(last.id)}
                className="w-full rounded-md px-2 py-2 text-left hover:bg-sunk disabled:hover:bg-transparent"
              >
                <span className="flex flex-wrap items-center gap-2">
                  <StatusBadge status={it.status} />
                  <span className="text-[13px]">{describe(it)}</span>
                  <span className="ml-auto text-xs text-dim">{shortTime(it.created_at)}</span>
                </span>
                <span className="mt-1 block font-mono text-xs text-dim">{it.run_id}</span>
                {usage && <span className="block text-xs text-dim">{usageText(usage)}</span>}
                {it.cancel_reason && <span className="block text-xs text-dim">Cancelled: {it.cancel_reason}</span>}
              </button>
            </li>
          );
        })}
      </ul>
      <p role="status" className="text-center text-sm text-dim">
        {found === null && searched.error === null && "Searching…"}
        {found?.items.length === 0 && "No run matches."}
      </p>
      {found?.hasMore && (
        <div className="text-center">
          <Button look="ghost" onClick={() => setLimit(limit + RUNS)}>
            Older runs
          </Button>
        </div>
      )}
    </div>
  );
}

/** Describes the input, the command or the checkpoint that the run was started with. */
export function describe({ kwargs }: Run): string {
  if (kwargs.command) return `Answer: ${brief(kwargs.command["resume"] ?? kwargs.command)}`;
  if (kwargs.input !== null) return `Input: ${brief(kwargs.input)}`;
  return kwargs.checkpoint_id ? "Fork" : "Continued";
}
