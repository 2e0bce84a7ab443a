import { Download } from "lucide-react";
import { type ReactElement, useEffect, useState } from "react";

import { api } from "@/lib/api";
import { size } from "@/lib/format";
import type { RunFile } from "@/lib/types";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

/** The documents of a run, to be saved. */
export function FilesDialog({ id, onClose }: { id: string; onClose: () => void }): ReactElement {
  return (
    <Modal title="Downloads" onClose={onClose}>
      <FileList id={id} />
    </Modal>
  );
}

const TEXTS: Record<string, string> = {
  "report.html": "The report as one page, with its charts",
  "report.md": "The report as text",
  "report.json": "Everything, for programs",
  "scores.csv": "The scores, for a spreadsheet",
  "trace.json": "Every step of the run, with its times",
};

export function FileList({ id }: { id: string }): ReactElement {
  const [files, setFiles] = useState<RunFile[]>([]);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    api.files(id, stop.signal).then(
      (it) => setFiles(it.files.toSorted((a, b) => rank(a.name) - rank(b.name))),
      (cause: unknown) => {
        if (!stop.signal.aborted) setError(cause);
      },
    );
    return () => stop.abort();
  }, [id]);
  const save = (name: string): void => void api.download(id, name).catch(setError);
  return (
    <>
      {error !== null && <Problem title="A file cannot be fetched" error={error} />}
      <ul className="grid gap-1 sm:grid-cols-2">
        {[...files, { name: "trace.json", bytes: null }].map((it) => (
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

/** What people want first comes first; the moves follow by their numbers. */
function rank(name: string): number {
  const first = ["report.html", "report.md", "report.json", "scores.csv"].indexOf(name);
  if (first >= 0) return first;
  const move = /^m(\d+)\.md$/.exec(name);
  return move ? 100 + Number(move[1]) : 10;
}
