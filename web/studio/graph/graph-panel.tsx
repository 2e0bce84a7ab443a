import { type ReactElement, type ReactNode, useMemo } from "react";

import { Button } from "@/ui/button";
import type { Drawing } from "@studio/api/types";
import type { Checkpoint } from "@studio/history/checkpoint";
import type { ThreadView } from "@studio/run/use-thread";
import { useStoredDraft } from "@studio/form/stored-draft";

import { picture, subgraphsOf } from "./drawing";
import { GraphView } from "./graph-view";
import { liveStatuses, statusesAt } from "./status";

interface Props {
  drawing: Drawing;
  view: ThreadView | null;
  selected: Checkpoint | null;
  /** Whether the newest checkpoint is selected. */
  isHead: boolean;
  breakpoints: ReadonlySet<string>;
  onToggleBreakpoint: (id: string) => void;
  /** Status of the run, with its actions. */
  bar: ReactNode;
}

/** The drawing of the graph, with the statuses at the selected checkpoint or in the running run. */
export function GraphPanel(props: Props): ReactElement {
  const { drawing, view, selected, isHead, breakpoints, onToggleBreakpoint, bar } = props;
  const subgraphs = useMemo(() => subgraphsOf(drawing), [drawing]);
  const [opened, setOpened] = useStoredDraft<string[]>(`opened ${subgraphs.join()}`, []);
  const shown = useMemo(() => picture(drawing, new Set(opened)), [drawing, opened]);
  const toggle = (id: string): void =>
    setOpened(opened.includes(id) ? opened.filter((it) => it !== id && !it.startsWith(`${id}:`)) : [...opened, id]);
  const live = view?.live ?? null;
  const isActive = view !== null && view.active !== null;
  const isLive = isHead && live !== null && (isActive || view?.head?.run === live.run);
  const statuses = {
    ...statusesAt(view?.checkpoints ?? [], selected?.id ?? null),
    ...(isLive && liveStatuses(live, isActive)),
  };
  return (
    <section aria-labelledby="graph-title" className="rounded-xl border border-line bg-panel shadow-(--shadow)">
      <header className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1.5">
        <h2 id="graph-title" className="text-sm font-semibold">
          Graph
        </h2>
        {subgraphs.length > 0 && (
          <Button look="ghost" onClick={() => setOpened(opened.length > 0 ? [] : subgraphs)}>
            {opened.length > 0 ? "Close subgraphs" : "Open subgraphs"}
          </Button>
        )}
        <div className="ml-auto flex flex-wrap items-center gap-2">{bar}</div>
      </header>
      <GraphView
        picture={shown}
        statuses={statuses}
        breakpoints={breakpoints}
        onToggleSubgraph={toggle}
        onToggleBreakpoint={onToggleBreakpoint}
      />
    </section>
  );
}
