import { Copy, Plus, Trash2 } from "lucide-react";
import { type ReactElement, type RefObject, useRef, useState } from "react";

import { useAction } from "@/actions/use-action";
import { cn } from "@/lib/cn";
import { useMedia } from "@/lib/media";
import { useDebounced } from "@/lib/use-debounced";
import { useFetched } from "@/lib/use-fetched";
import { Button } from "@/ui/button";
import { Link } from "@/ui/link";
import { Problem } from "@/ui/problem";
import { api } from "@studio/api/client";
import type { Thread, ThreadStatus } from "@studio/api/types";
import { goTo, hrefOf } from "@studio/place";
import { useShortcuts } from "@studio/shortcuts";
import { ConfirmButton } from "@/ui/confirm-button";
import { shortTime } from "@studio/ui/short-time";
import { StatusBadge } from "@studio/ui/status-badge";

import { searchThreads } from "./search";
import { summaryOf, usageTextOf } from "./summary";

interface Props {
  /** Name of the graph in URLs. */
  graph: string;
  graphId: string;
  current: string | null;
  /** Version of the list. It is loaded again when this value changes. */
  changed: string;
}

const PAGE = 50;
const STATUSES: ThreadStatus[] = ["idle", "busy", "interrupted", "error"];

/** The threads of the graph, newest first, with search. On a narrow screen the list is closed at first. */
export function ThreadPanel({ graph, graphId, current, changed }: Props): ReactElement {
  const wide = useMedia("(min-width: 1024px)");
  const [open, setOpen] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  useShortcuts({
    n: () => goTo({ graph }),
    "/": () => {
      setOpen(true);
      requestAnimationFrame(() => search.current?.focus());
    },
  });
  return (
    <section
      aria-labelledby="threads-title"
      className="rounded-xl border border-line bg-panel shadow-(--shadow) lg:sticky lg:top-16"
    >
      <header className="flex min-h-12 items-center gap-2 px-4 py-1.5">
        <h2 id="threads-title" className="text-sm font-semibold">
          Threads
        </h2>
        {!wide && (
          <Button look="ghost" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Hide" : "Show"}
          </Button>
        )}
        <Button className="ml-auto" disabled={current === null} onClick={() => goTo({ graph })}>
          <Plus aria-hidden /> New
        </Button>
      </header>
      {(wide || open) && <List graph={graph} graphId={graphId} current={current} changed={changed} search={search} />}
    </section>
  );
}

function List({
  graph,
  graphId,
  current,
  changed,
  search,
}: Props & { search: RefObject<HTMLInputElement | null> }): ReactElement {
  const [query, setQuery] = useState("");
  const [status, setStatus] = useState<ThreadStatus | null>(null);
  const [limit, setLimit] = useState(PAGE);
  const [edits, setEdits] = useState(0);
  const { busy, error: failure, run } = useAction();
  const sent = useDebounced(query.trim());
  const { value: found, error } = useFetched(
    `threads ${graphId} ${status} ${limit} ${sent}`,
    (signal) => searchThreads({ graph: graphId, status, query: sent, limit }, signal),
    `${changed} ${edits}`,
  );
  const copy = (thread: Thread): void =>
    run(async () => {
      const made = await api.copyThread(thread.thread_id);
      goTo({ graph, thread: made.thread_id });
    });
  const remove = (thread: Thread): void =>
    run(async () => {
      await api.deleteThread(thread.thread_id);
      setEdits((it) => it + 1);
      if (thread.thread_id === current) goTo({ graph });
    });
  const control = "h-8 min-w-0 rounded-md border border-edge bg-panel px-2 text-[13px]";
  return (
    <>
      <div className="flex gap-1.5 border-b border-line px-3 pb-2.5">
        <input
          ref={search}
          type="search"
          aria-label="Search the threads"
          placeholder="Search"
          title="Words in the state, an id or its beginning, or metadata such as user=ann"
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setLimit(PAGE);
          }}
          className={cn(control, "flex-1 placeholder:text-dim")}
        />
        <select
          aria-label="Status"
          value={status ?? ""}
          onChange={(event) => setStatus((event.target.value || null) as ThreadStatus | null)}
          className={cn(control, "w-20")}
        >
          <option value="">All</option>
          {STATUSES.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
      </div>
      {(error ?? failure) !== null && (
        <div className="p-3">
          <Problem title="The threads could not be loaded or changed" error={error ?? failure} />
        </div>
      )}
      <ul className="max-h-[calc(100dvh-13rem)] space-y-0.5 overflow-auto p-1.5">
        {found?.items.map((it) => (
          <li
            key={it.thread_id}
            className={cn("rounded-md", it.thread_id === current ? "bg-accent-soft" : "hover:bg-sunk")}
          >
            <Link
              href={hrefOf({ graph, thread: it.thread_id })}
              aria-current={it.thread_id === current ? "page" : undefined}
              className="block rounded-md px-2.5 py-2"
            >
              <span className="flex items-center gap-2">
                <StatusBadge status={it.status} />
                <span className="ml-auto text-xs text-dim">{shortTime(it.updated_at)}</span>
              </span>
              <span className="mt-1 line-clamp-2 text-[13px]">{summaryOf(it)}</span>
              <span className="block text-xs text-dim">{usageTextOf(it)}</span>
            </Link>
            {it.thread_id === current && (
              <div className="flex gap-1 px-1.5 pb-1.5">
                <Button look="ghost" disabled={busy} onClick={() => copy(it)}>
                  <Copy aria-hidden /> Copy
                </Button>
                <ConfirmButton
                  question="Delete this thread with all its checkpoints?"
                  confirm="Delete the thread"
                  look="ghost"
                  className="text-bad"
                  disabled={busy}
                  onConfirm={() => remove(it)}
                >
                  <Trash2 aria-hidden /> Delete
                </ConfirmButton>
              </div>
            )}
          </li>
        ))}
      </ul>
      <p role="status" className="px-4 text-center text-[13px] text-dim not-empty:pb-4">
        {found === null && error === null && sent !== "" && "Searching…"}
        {found?.items.length === 0 &&
          (sent === "" && status === null ? "No threads yet. Start a run to create one." : "No thread matches.")}
      </p>
      {found?.hasMore && (
        <div className="border-t border-line p-2 text-center">
          <Button look="ghost" onClick={() => setLimit(limit + PAGE)}>
            Older threads
          </Button>
        </div>
      )}
    </>
  );
}
