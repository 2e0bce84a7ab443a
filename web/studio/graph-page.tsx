import { type ReactElement, useState } from "react";

import { useFetched } from "@/lib/use-fetched";
import { Problem } from "@/ui/problem";
import { api } from "@studio/api/client";
import type { Assistant, Json, RunRequest } from "@studio/api/types";

import { slugOf } from "./assistant";
import { ChatPanel } from "./chat/chat-panel";
import { RunForm } from "./form/run-form";
import { GraphPanel } from "./graph/graph-panel";
import { ComparePanel } from "./history/compare-panel";
import { CheckpointPanel } from "./history/checkpoint-panel";
import { Timeline } from "./history/timeline";
import { type Place, goTo } from "./place";
import { InterruptPanel } from "./run/interrupt-panel";
import { RunBar } from "./run/run-bar";
import { WorkTabs } from "./run/work-tabs";
import { useThread } from "./run/use-thread";
import { ThreadPanel } from "./threads/thread-panel";

/** One graph: its threads, its drawing, its runs and their checkpoints. */
export function GraphPage({ assistant, place }: { assistant: Assistant; place: Place }): ReactElement {
  const graph = slugOf(assistant);
  const schemas = useFetched(`schemas ${graph}`, (signal) => api.schemas(assistant.assistant_id, signal));
  const drawing = useFetched(`drawing ${graph}`, (signal) => api.drawing(assistant.assistant_id, signal));
  const { view, error, connected, isBusy, refresh, runStarted } = useThread(place.thread);
  const [breakpoints, setBreakpoints] = useState<ReadonlySet<string>>(new Set());
  const [listed, setListed] = useState(0);

  const all = view?.checkpoints ?? [];
  const selected = all.find((it) => it.id === place.checkpoint) ?? view?.head ?? null;
  const compared = all.find((it) => it.id === place.compare) ?? null;
  const select = (checkpoint: string | null): void => goTo({ graph, thread: place.thread, checkpoint });

  /** Starts a run on the thread, or on a new thread if none is selected. */
  const start = async (request: Omit<RunRequest, "assistant_id">): Promise<void> => {
    const thread = place.thread ?? (await api.createThread(assistant.graph_id)).thread_id;
    await api.startRun(thread, {
      assistant_id: assistant.assistant_id,
      ...(breakpoints.size > 0 && { interrupt_before: [...breakpoints] }),
      ...request,
    });
    // The new run continues at the newest checkpoint, so an older one must not stay selected.
    goTo({ graph, thread });
    runStarted();
    setListed((it) => it + 1);
  };
  const resume = (answer: Json): Promise<void> => start({ command: { resume: answer } });
  const toggleBreakpoint = (id: string): void =>
    setBreakpoints((it) => {
      const next = new Set(it);
      if (!next.delete(id)) next.add(id);
      return next;
    });

  const isHead = selected === null || selected.id === view?.head?.id;
  const bar = (
    <RunBar view={view} connected={connected} isBusy={isBusy} isHead={isHead} onChanged={refresh} onStart={start} />
  );
  return (
    <div className="grid items-start gap-3 lg:grid-cols-[15rem_minmax(0,1fr)] xl:grid-cols-[15rem_minmax(0,1fr)_minmax(22rem,27rem)]">
      <ThreadPanel
        graph={graph}
        graphId={assistant.graph_id}
        current={place.thread}
        changed={`${listed} ${view?.thread.updated_at} ${isBusy}`}
      />
      <div className="min-w-0 space-y-3">
        {drawing.error !== null && <Problem title="The drawing could not be loaded" error={drawing.error} />}
        {schemas.error !== null && <Problem title="The schemas could not be loaded" error={schemas.error} />}
        {error !== null && <Problem title="The thread could not be loaded" error={error} />}
        {drawing.value && (
          <GraphPanel
            drawing={drawing.value}
            view={view}
            selected={selected}
            isHead={isHead}
            breakpoints={breakpoints}
            onToggleBreakpoint={toggleBreakpoint}
            bar={bar}
          />
        )}
        {/* Mounted during runs too, so that no entered answer is lost. */}
        {view && isHead && <InterruptPanel head={isBusy ? null : view.head} onResume={resume} />}
        {(schemas.value !== null || schemas.error !== null) && (
          <WorkTabs
            graph={graph}
            schemas={schemas.value}
            view={view}
            form={
              <RunForm
                graph={graph}
                schemas={schemas.value}
                isBusy={isBusy}
                isNew={place.thread === null}
                onStart={start}
              />
            }
            chat={<ChatPanel view={view} selected={selected} isHead={isHead} isBusy={isBusy} onStart={start} />}
            onSelect={select}
          />
        )}
      </div>
      <div className="min-w-0 space-y-3 lg:max-xl:col-span-2">
        {view && selected && compared && (
          <ComparePanel all={all} left={compared} right={selected} onClose={() => select(place.checkpoint)} />
        )}
        {view && <Timeline all={all} selected={selected} running={view.live} isBusy={isBusy} onSelect={select} />}
        {view && selected && (
          <CheckpointPanel
            key={selected.id}
            thread={view.thread.thread_id}
            all={all}
            checkpoint={selected}
            isBusy={isBusy}
            onFork={() => start({ input: null, checkpoint_id: selected.id })}
            onEdited={(checkpoint) => {
              refresh();
              select(checkpoint);
            }}
            onCompare={(other) => goTo({ graph, thread: place.thread, checkpoint: selected.id, compare: other })}
          />
        )}
      </div>
    </div>
  );
}
