import type { ReactElement } from "react";

import { api } from "@/lib/api";
import { useFetched } from "@/lib/use-fetched";
import { moveNumber } from "@/run/board";
import { Document } from "@/text/document";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";

const TITLES: Record<string, string> = {
  "financial.md": "Financial data",
  "financial-narrated.md": "Financial data, narrated",
  "news.md": "Market intelligence",
  "news-narrated.md": "Market intelligence, narrated",
  "F1.md": "Findings F1",
  "F2.md": "Findings F2",
};

const MOVE = /^(m\d+)\.md$/;

/** Returns whether a file is a document that can be displayed. */
export const readable = (file: string): boolean => file in TITLES || MOVE.test(file);

interface Props {
  id: string;
  /** Files of the run so far. */
  files: readonly string[];
  /** Titles of the moves. */
  titles: Readonly<Record<string, string>>;
  /** The requested document. */
  file: string | null;
  onFile: (file: string) => void;
}

/** The documents of a run that exist so far. */
export function Documents({ id, files, titles, file: wanted, onFile }: Props): ReactElement {
  const known = Object.keys(TITLES).filter((it) => files.includes(it));
  const moves = files
    .flatMap((it) => MOVE.exec(it)?.[1] ?? [])
    .toSorted((a, b) => moveNumber(a) - moveNumber(b))
    .map((it) => ({ file: `${it}.md`, title: titles[it] ? `${it} · ${titles[it]}` : it }));
  const all = [...known.map((it) => ({ file: it, title: TITLES[it] })), ...moves];
  const file = all.find((it) => it.file === wanted)?.file ?? all[0]?.file ?? null;
  const { value: text, error } = useFetched(file && `${id} ${file}`, (signal) => api.file(id, file!, signal));
  return (
    <div className="grid grid-cols-1 items-start gap-4 md:grid-cols-[16rem_minmax(0,1fr)]">
      <nav
        aria-label="Documents"
        className="rounded-xl border border-line bg-panel p-2 max-md:max-h-56 max-md:overflow-auto"
      >
        <ul>
          {all.map((it) => (
            <li key={it.file}>
              <button
                type="button"
                aria-current={it.file === file}
                onClick={() => onFile(it.file)}
                className="w-full truncate rounded-md px-2 py-1.5 text-left text-[13px] hover:bg-sunk aria-[current=true]:bg-accent-soft aria-[current=true]:font-medium aria-[current=true]:text-accent"
              >
                {it.title}
              </button>
            </li>
          ))}
        </ul>
      </nav>
      <Panel id="document" title={file}>
        {error !== null && <Problem title="Could not load the document" error={error} />}
        {text === null && error === null && <p className="text-dim">Loading…</p>}
        {text !== null && <Document text={text} />}
      </Panel>
    </div>
  );
}
