import type { ReactElement } from "react";

import { api, comparison } from "@/lib/api";
import { when } from "@/lib/format";
import type { Run, RunSummary } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { Link } from "@/ui/link";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

/** Lists completed runs to compare with, related ones first. */
export function CompareDialog({ run, onClose }: { run: Run; onClose: () => void }): ReactElement {
  const { value, error } = useFetched("runs", (signal) => api.runs({ limit: 200 }, signal));
  const near = (it: RunSummary): number =>
    it.id === run.from || it.from === run.id ? 0 : it.ticker === run.ticker ? 1 : 2;
  const others = value?.runs
    .filter((it) => it.id !== run.id && it.status === "complete")
    .toSorted((a, b) => near(a) - near(b));
  return (
    <Modal title="Compare with" onClose={onClose}>
      {error !== null && <Problem title="Could not load the runs" error={error} />}
      {others?.length === 0 && <p className="text-sm text-dim">There is no other completed run.</p>}
      <ul className="divide-y divide-line">
        {others?.map((it) => (
          <li key={it.id}>
            <Link
              href={comparison(it.id, run.id)}
              className="flex items-center gap-3 px-2 py-2.5 text-sm hover:bg-sunk"
            >
              <b className="w-16 shrink-0">{it.ticker}</b>
              <span className="min-w-0 flex-1 truncate font-mono text-xs">{it.id}</span>
              <span className="text-xs text-dim">{it.id === run.from ? "forked from" : when(it.created_at)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </Modal>
  );
}
