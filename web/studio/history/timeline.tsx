import { GitBranch, Hand, LoaderCircle, TriangleAlert } from "lucide-react";
import { type ReactElement, useEffect, useRef } from "react";

import { cn } from "@/lib/cn";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";
import type { RunView } from "@studio/run/fold";
import { useShortcuts } from "@studio/shortcuts";

import type { Checkpoint } from "./checkpoint";
import { diff } from "./diff";
import { counted, labelOf } from "./labels";
import { branchOf, childrenOf } from "./tree";

interface Props {
  all: readonly Checkpoint[];
  selected: Checkpoint | null;
  running: RunView | null;
  isBusy: boolean;
  /** Selects a checkpoint; null selects the newest. */
  onSelect: (checkpoint: string | null) => void;
}

/** The supersteps of the branch that contains the selected checkpoint. */
export function Timeline({ all, selected, running, isBusy, onSelect }: Props): ReactElement {
  const branch = branchOf(all, selected?.id ?? null);
  const at = branch.findIndex((it) => it.id === selected?.id);
  const head = all.at(-1);
  const select = (it: Checkpoint | undefined): void => {
    if (it) onSelect(it.id === head?.id ? null : it.id);
  };
  useShortcuts({ j: () => select(branch[at + 1]), k: () => select(branch[at - 1]) });
  const list = useRef<HTMLOListElement>(null);
  const selectedId = selected?.id;
  useEffect(() => {
    const current = list.current?.querySelector<HTMLElement>("[aria-current]");
    if (list.current && current) scrollWithin(list.current, current);
  }, [selectedId]);
  const active = Object.entries(running?.nodes ?? {}).flatMap(([name, it]) =>
    Array.from({ length: name.includes(":") ? 0 : it.running }, () => name),
  );
  return (
    <Panel
      id="timeline"
      title="Timeline"
      inner="p-0"
      aside={
        selected && head && selected.id !== head.id ? (
          <Button look="ghost" onClick={() => onSelect(null)}>
            Newest
          </Button>
        ) : undefined
      }
    >
      {branch.length === 0 && <p className="px-4 py-6 text-center text-sm text-dim">No checkpoints yet.</p>}
      <ol ref={list} className="max-h-72 overflow-auto py-1" aria-label="Checkpoints, oldest first">
        {branch.map((it) => (
          <Row key={it.id} all={all} checkpoint={it} current={it.id === selected?.id} onSelect={select} />
        ))}
        {isBusy && active.length > 0 && (
          <li className="flex items-center gap-2 px-4 py-2 text-[13px] text-accent">
            <LoaderCircle aria-hidden size={14} className="animate-spin" /> {counted(active)}
          </li>
        )}
      </ol>
    </Panel>
  );
}

/** Scrolls a list so that an item is visible, without scrolling the page. */
function scrollWithin(list: HTMLElement, item: HTMLElement): void {
  const [outer, inner] = [list.getBoundingClientRect(), item.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
}

interface RowProps {
  all: readonly Checkpoint[];
  checkpoint: Checkpoint;
  current: boolean;
  onSelect: (checkpoint: Checkpoint) => void;
}

function Row({ all, checkpoint, current, onSelect }: RowProps): ReactElement {
  const parent = all.find((it) => it.id === checkpoint.parent);
  const changed = new Set(diff(parent?.values ?? {}, checkpoint.values).map((it) => it.path.split(/[.[]/)[0]!));
  const siblings = checkpoint.parent === null ? [] : childrenOf(all, checkpoint.parent);
  const failed = checkpoint.tasks.some((it) => it.error !== null);
  const waiting = checkpoint.tasks.some((it) => it.interrupts.length > 0);
  return (
    <li className="px-1.5">
      <div className={cn("flex items-stretch rounded-md", current ? "bg-accent-soft" : "hover:bg-sunk")}>
        <button
          type="button"
          aria-current={current ? "true" : undefined}
          onClick={() => onSelect(checkpoint)}
          className="flex min-w-0 flex-1 items-baseline gap-2.5 rounded-md px-2.5 py-1.5 text-left"
        >
          <span className="w-5 shrink-0 text-right font-mono text-xs text-dim tabular-nums">{checkpoint.step}</span>
          <span className="min-w-0">
            <span className="flex flex-wrap items-center gap-1.5 text-[13px] font-medium">
              {labelOf(all, checkpoint)}
              {waiting && (
                <Badge tone="warn">
                  <Hand aria-hidden /> waiting
                </Badge>
              )}
              {failed && (
                <Badge tone="bad">
                  <TriangleAlert aria-hidden /> failed
                </Badge>
              )}
            </span>
            {changed.size > 0 && <span className="block truncate text-xs text-dim">{[...changed].join(", ")}</span>}
          </span>
        </button>
        {siblings.length > 1 && <BranchSwitch siblings={siblings} checkpoint={checkpoint} onSelect={onSelect} />}
      </div>
    </li>
  );
}

/** Switches to the next branch that starts at the same checkpoint. */
function BranchSwitch({
  siblings,
  checkpoint,
  onSelect,
}: {
  siblings: readonly Checkpoint[];
  checkpoint: Checkpoint;
  onSelect: (checkpoint: Checkpoint) => void;
}): ReactElement {
  const at = siblings.findIndex((it) => it.id === checkpoint.id);
  return (
    <button
      type="button"
      onClick={() => onSelect(siblings[(at + 1) % siblings.length]!)}
      aria-label={`${at + 1}/${siblings.length} branches. Show the next branch.`}
      title="Show the next branch"
      className="flex shrink-0 items-center gap-1 rounded-md px-2 text-xs text-accent hover:bg-sunk"
    >
      <GitBranch aria-hidden size={13} /> {at + 1}/{siblings.length}
    </button>
  );
}
