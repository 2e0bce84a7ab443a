import { Pencil, Plus, Trash2 } from "lucide-react";
import { type ReactElement, useState } from "react";

import { useAction } from "@/actions/use-action";
import { cn } from "@/lib/cn";
import { when } from "@/lib/format";
import { useDebounced } from "@/lib/use-debounced";
import { useFetched } from "@/lib/use-fetched";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";
import { api } from "@studio/api/client";
import type { StoreItem } from "@studio/api/types";
import { ConfirmButton } from "@/ui/confirm-button";
import { JsonView } from "@studio/ui/json-view";

import { ItemDialog } from "./item-dialog";
import { LIMIT, searchItems } from "./search";

/** The long-term store that all graphs share: namespaces and their items. */
export function StorePage(): ReactElement {
  const [namespace, setNamespace] = useState<string[]>([]);
  const [query, setQuery] = useState("");
  const sent = useDebounced(query);
  const [edits, setEdits] = useState(0);
  const [editing, setEditing] = useState<StoreItem | "new" | null>(null);
  const { busy, error: failure, run } = useAction();
  const namespaces = useFetched("namespaces", api.namespaces, edits);
  const items = useFetched(
    `items ${JSON.stringify(namespace)} ${sent}`,
    (signal) => searchItems(namespace, sent, signal),
    edits,
  );
  const shown = items.value;
  const changed = (): void => setEdits((it) => it + 1);
  const remove = (item: StoreItem): void =>
    run(async () => {
      await api.deleteItem(item);
      changed();
    });
  const error = namespaces.error ?? items.error ?? failure;
  return (
    <div className="grid items-start gap-3 md:grid-cols-[16rem_minmax(0,1fr)]">
      <Panel id="namespaces" title="Namespaces" inner="p-1.5">
        <ul>
          {[[], ...(namespaces.value ?? [])].map((it) => {
            const isCurrent = it.join("\u0000") === namespace.join("\u0000");
            return (
              <li key={it.join("\u0000")}>
                <button
                  type="button"
                  aria-current={isCurrent ? "true" : undefined}
                  onClick={() => setNamespace(it)}
                  className={cn(
                    "w-full rounded-md px-2.5 py-1.5 text-left text-[13px]",
                    isCurrent ? "bg-accent-soft font-medium" : "hover:bg-sunk",
                  )}
                >
                  {it.length === 0 ? "All namespaces" : it.join(" / ")}
                </button>
              </li>
            );
          })}
        </ul>
      </Panel>
      <Panel
        id="items"
        title={`Items${shown ? ` (${shown.length === LIMIT ? `first ${LIMIT}` : shown.length})` : ""}`}
        aside={
          <Button onClick={() => setEditing("new")}>
            <Plus aria-hidden /> New item
          </Button>
        }
      >
        <Field
          label="Search the items"
          type="search"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
        />
        {error !== null && (
          <div className="mt-3">
            <Problem title="The store could not be read or changed" error={error} />
          </div>
        )}
        {shown?.length === 0 && <p className="py-6 text-center text-sm text-dim">No items.</p>}
        <ul className="mt-3 space-y-2">
          {shown?.map((it) => (
            <li key={`${it.namespace.join("\u0000")} ${it.key}`} className="rounded-lg border border-line p-3">
              <div className="flex flex-wrap items-center gap-2">
                <span className="font-mono text-[13px] font-medium">{it.key}</span>
                <span className="text-xs text-dim">
                  {it.namespace.join(" / ")} · {when(it.updated_at)}
                </span>
                <span className="ml-auto flex gap-1">
                  <Button
                    look="ghost"
                    size="icon"
                    className="size-8"
                    aria-label={`Edit ${it.key}`}
                    onClick={() => setEditing(it)}
                  >
                    <Pencil aria-hidden />
                  </Button>
                  <ConfirmButton
                    question={`Delete ${it.key}?`}
                    confirm="Delete the item"
                    look="ghost"
                    size="icon"
                    className="size-8 text-bad"
                    disabled={busy}
                    aria-label={`Delete ${it.key}`}
                    onConfirm={() => remove(it)}
                  >
                    <Trash2 aria-hidden />
                  </ConfirmButton>
                </span>
              </div>
              <div className="mt-2">
                <JsonView value={it.value} />
              </div>
            </li>
          ))}
        </ul>
      </Panel>
      {editing !== null && (
        <ItemDialog
          item={editing === "new" ? null : editing}
          namespace={namespace}
          onClose={() => setEditing(null)}
          onSaved={changed}
        />
      )}
    </div>
  );
}
