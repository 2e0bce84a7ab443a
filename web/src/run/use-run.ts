/** Follows one run: its status and its events. */

import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "react";

import { api, runEvents } from "@/lib/api";
import { ApiError } from "@/lib/http";
import type { RunEvent } from "@/lib/events";
import { isLive } from "@/lib/status";
import { follow } from "@/lib/stream";
import type { Run, RunStatus } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { useVisible } from "@/lib/use-visible";

import { type Sample, addSample } from "./estimate";
import { fold, fillGap } from "./fold";
import { type RunView, markStopped, emptyView } from "./view";

interface RunState {
  run: Run | null;
  view: RunView;
  /** False while a lost connection is being retried. */
  connected: boolean;
  /** Error while loading the run. */
  error: ApiError | null;
  /** Error while streaming events; retried on request. */
  refused: ApiError | null;
  samples: Sample[];
  /** Reloads and reconnects immediately, after an action on the run. */
  refresh: () => void;
}

type Action = { kind: "events" | "stored"; events: RunEvent[] };

function reduce(view: RunView, action: Action): RunView {
  return action.kind === "events" ? fold(view, action.events) : fillGap(view, action.events);
}

/** The component must use the run id as its key, so that a view never mixes two runs. */
export function useRun(id: string): RunState {
  const [view, dispatch] = useReducer(reduce, undefined, emptyView);
  const [run, setRun] = useState<Run | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [refused, setRefused] = useState<ApiError | null>(null);
  const [samples, setSamples] = useState<Sample[]>([]);
  const [connected, setConnected] = useState(true);
  const [attempt, setAttempt] = useState(0);
  const visible = useVisible();
  const refresh = useCallback(() => setAttempt((it) => it + 1), []);
  const last = useRef(0);
  const status = useRef<RunStatus>(undefined);
  useEffect(() => {
    last.current = view.last;
  }, [view.last]);

  const load = useCallback(
    async (signal?: AbortSignal) => {
      try {
        const next = await api.run(id, signal);
        // The run was resumed elsewhere: reconnect to its events.
        if (status.current && !isLive(status.current) && isLive(next.status)) refresh();
        status.current = next.status;
        // The configuration never changes; keeping the object identity avoids a new layout.
        setRun((it) => ({ ...next, config: it?.config ?? next.config }));
        setError(null);
        setSamples((it) => addSample(it, { at: Date.now(), calls: next.usage.calls }));
      } catch (cause) {
        if (signal?.aborted || !(cause instanceof ApiError)) return;
        // While the server is unreachable, keep the current state; the connection status is shown separately.
        if (cause.status >= 400 && cause.status < 500) setError(cause);
      }
    },
    [id, refresh],
  );

  // A stopped run may be resumed elsewhere, so keep polling slowly; a completed one is not polled.
  const pause = run === null || isLive(run.status) ? 2000 : run.status === "complete" ? null : 10_000;
  useEffect(() => {
    if (!visible) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    // Poll again only after the response, so that requests do not pile up on a slow server.
    const ask = async (): Promise<void> => {
      await load(stop.signal);
      if (pause !== null && !stop.signal.aborted) timer = setTimeout(() => void ask(), pause);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [load, pause, attempt, visible]);

  useEffect(() => {
    if (!visible) return;
    const stop = new AbortController();
    setRefused(null);
    const batch = batchEvents((events) => dispatch({ kind: "events", events }));
    void follow(
      runEvents(id),
      {
        last: () => Math.max(last.current, batch.last()),
        event: batch.add,
        connected: setConnected,
        end: () => void load(stop.signal),
        refused: setRefused,
      },
      stop.signal,
    );
    return () => {
      stop.abort();
      batch.flush();
    };
  }, [id, load, attempt, visible]);

  // Events are missing between the last one applied and those received: load them from the server.
  const gap = view.pending.length > 0 ? view.last : null;
  const { value: missing } = useFetched(gap === null ? null : `${id} ${gap}`, (signal) =>
    api.events(id, gap ?? 0, signal),
  );
  useEffect(() => {
    if (missing) dispatch({ kind: "stored", events: missing.events });
  }, [missing]);

  const rests = run !== null && !isLive(run.status);
  const shown = useMemo(() => (rests ? markStopped(view) : view), [rests, view]);
  return { run, view: shown, connected, error, refused, samples, refresh };
}

/** Batches events that arrive in quick succession, so that a replay of hundreds renders only a few times. */
function batchEvents(deliver: (events: RunEvent[]) => void): {
  add: (event: RunEvent) => void;
  flush: () => void;
  last: () => number;
} {
  let waiting: RunEvent[] = [];
  let last = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length > 0) deliver(waiting);
    waiting = [];
  };
  return {
    add: (event) => {
      waiting.push(event);
      last = Math.max(last, event.seq);
      timer ??= setTimeout(flush, 60);
    },
    flush,
    last: () => last,
  };
}
