import { Download } from "lucide-react";
import type { ReactElement } from "react";

import { api } from "@/lib/api";
import { size } from "@/lib/format";
import type { Run } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

import { useAction } from "./use-action";

/** Lists the files of a run for download. */
export function FilesDialog({ run, onClose }: { run: Run; onClose: () => void }): ReactElement {
  return (
    <Modal title="Downloads" onClose={onClose}>
      <FileList run={run} />
    </Modal>
  );
}

const TRACE = { name: "trace.json", bytes: null };

const TEXTS: Record<string, string> = {
  "report.html": "Report as a single page with charts",
  "report.md": "Report as text",
  "report.json": "Complete data for programs",
  "scores.csv": "Scores for a spreadsheet",
  "trace.json": "Every step of the run with timing",
};

/** The files of a run; the trace is available only for a completed run. */
export function FileList({ run: { id, status } }: { run: Run }): ReactElement {
  const { value, error } = useFetched(id, (signal) => api.files(id, signal));
  const saving = useAction();
  const files = value?.files.toSorted((a, b) => rank(a.name) - rank(b.name)) ?? [];
  const save = (name: string): void => saving.run(() => api.download(id, name));
  return (
    <>
      {error !== null && <Problem title="Could not load the list of files" error={error} />}
      {saving.error !== null && <Problem title="Could not download the file" error={saving.error} />}
      <ul className="grid gap-1 sm:grid-cols-2">
        {[...files, ...(status === "complete" ? [TRACE] : [])].map((it) => (
          <li key={it.name}>
            <button
              type="button"
              onClick={() => save(it.name)}
              className="flex w-full items-center gap-2.5 rounded-md px-2 py-1.5 text-left text-sm hover:bg-sunk"
            >
              <Download aria-hidden className="size-4 shrink-0 text-dim" />
              <span className="min-w-0 flex-1">
                <span className="font-mono text-[13px]">{it.name}</span>
                {TEXTS[it.name] && <span className="block text-xs text-dim">{TEXTS[it.name]}</span>}
              </span>
              {it.bytes !== null && <span className="text-xs text-dim tabular-nums">{size(it.bytes)}</span>}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Sorts reports first and moves by number. */
function rank(name: string): number {
  const first = ["report.html", "report.md", "report.json", "scores.csv"].indexOf(name);
  if (first >= 0) return first;
  const move = /^m(\d+)\.md$/.exec(name);
  return move ? 100 + Number(move[1]) : 10;
}
