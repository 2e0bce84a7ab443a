import { type ReactElement, useEffect, useState } from "react";

import { ApiError, api } from "@/lib/api";
import type { Report } from "@/lib/report";
import { Document } from "@/text/document";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";

const NAMES = [
  { file: "financial.md", title: "Financial data" },
  { file: "news.md", title: "Market intelligence" },
  { file: "F1.md", title: "Findings F1" },
  { file: "F2.md", title: "Findings F2" },
];

/** What everything was drawn from. */
export function Documents({ id, report }: { id: string; report: Report | null }): ReactElement {
  const [file, setFile] = useState(NAMES[0]!.file);
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    setText(null);
    setError(null);
    api.file(id, file, stop.signal).then(setText, (it: unknown) => {
      if (!stop.signal.aborted) setError(it instanceof ApiError ? it : String(it));
    });
    return () => stop.abort();
  }, [id, file]);
  const moves = report?.outcome.moves ?? [];
  return (
    <div className="grid grid-cols-1 items-start gap-4 md:grid-cols-[16rem_minmax(0,1fr)]">
      <nav
        aria-label="Documents"
        className="rounded-xl border border-line bg-panel p-2 max-md:max-h-56 max-md:overflow-auto"
      >
        <ul>
          {[...NAMES, ...moves.map((it) => ({ file: `${it.move_id}.md`, title: `${it.move_id} · ${it.title}` }))].map(
            (it) => (
              <li key={it.file}>
                <button
                  type="button"
                  aria-current={it.file === file}
                  onClick={() => setFile(it.file)}
                  className="w-full truncate rounded-md px-2 py-1.5 text-left text-[13px] hover:bg-sunk aria-[current=true]:bg-accent-soft aria-[current=true]:font-medium aria-[current=true]:text-accent"
                >
                  {it.title}
                </button>
              </li>
            ),
          )}
        </ul>
      </nav>
      <Panel id="document" title={file}>
        {error !== null && <Problem title="The document cannot be read" error={error} />}
        {text === null && error === null && <p className="text-dim">Loading…</p>}
        {text !== null && <Document text={text} />}
      </Panel>
    </div>
  );
}
