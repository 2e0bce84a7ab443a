/** Loads a thread and follows its newest run. */

import { useCallback, useEffect, useEffectEvent, useMemo, useRef, useState } from "react";

import { ApiError } from "@/lib/http";
import { useVisible } from "@/lib/use-visible";
import { api } from "@studio/api/client";
import { follow } from "@studio/api/follow";
import type { Run, Thread } from "@studio/api/types";
import { type Checkpoint, mergeCheckpoints, toCheckpoint } from "@studio/history/checkpoint";

import { eventBatcher } from "./event-batcher";
import { type RunView, emptyRun, fold } from "./fold";

interface Loaded {
  thread: Thread;
  /** Stored checkpoints, oldest first. */
  checkpoints: Checkpoint[];
  /** Up to `RUNS` runs, newest first. */
  runs: Run[];
}

export interface ThreadView extends Loaded {
  /** View of the newest run, from the events that the server still has. */
  live: RunView | null;
  /** The pending or running run. */
  active: Run | null;
  /** The newest checkpoint. */
  head: Checkpoint | null;
}

export interface UseThread {
  view: ThreadView | null;
  error: unknown;
  connected: boolean;
  /** Whether a run is active. */
  isBusy: boolean;
  /** Loads the thread again. */
  refresh: () => void;
  /** Loads the thread again because a run was started on it. Until it is loaded, the thread is busy. */
  runStarted: () => void;
}

/** Number of runs that are loaded with a thread. */
export const RUNS = 100;

/** Interval at which the thread is checked for changes by other clients. */
const POLL_MS = 3000;

export function useThread(id: string | null): UseThread {
  const [loaded, setLoaded] = useState<{ id: string; data: Loaded } | null>(null);
  const [error, setError] = useState<{ id: string; error: unknown } | null>(null);
  const [count, setCount] = useState(0);
  const [live, setLive] = useState<RunView | null>(null);
  const [connected, setConnected] = useState(true);
  /** The run whose stream has ended. */
  const [ended, setEnded] = useState<string | null>(null);
  const visible = useVisible();
  /** Whether the thread has not been loaded since a run was started on it. */
  const [started, setStarted] = useState(false);
  const refresh = useCallback(() => setCount((it) => it + 1), []);
  const runStarted = useCallback(() => {
    setStarted(true);
    refresh();
  }, [refresh]);
  const isLoading = useRef(false);

  const data = loaded?.id === id ? (loaded?.data ?? null) : null;
  useEffect(() => {
    if (id === null) return;
    const stop = new AbortController();
    isLoading.current = true;
    load(id, stop.signal).then(
      (data) => {
        if (stop.signal.aborted) return;
        isLoading.current = false;
        setLoaded({ id, data });
        setStarted(false);
        setError(null);
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        isLoading.current = false;
        setStarted(false);
        setError({ id, error });
        if (error instanceof ApiError && (error.status === 0 || error.status >= 500)) setTimeout(refresh, POLL_MS);
      },
    );
    return () => stop.abort();
  }, [id, count, refresh]);

  const newest = data?.runs[0] ?? null;
  const run = newest?.run_id ?? null;
  const isActive = newest !== null && (newest.status === "pending" || newest.status === "running");
  // When a run ends, load its stored state, which is complete from then on.
  const onEnd = useEffectEvent(() => {
    if (isActive) refresh();
  });
  useEffect(() => {
    if (id === null || run === null || !visible) return;
    const stop = new AbortController();
    const start = emptyRun(run);
    const batcher = eventBatcher((events) => setLive((it) => events.reduce(fold, it?.run === run ? it : start)));
    // Events are replayed from the beginning, so an earlier view of the run is discarded with the first of them.
    setLive((it) => (it?.run === run ? start : it));
    setEnded(null);
    follow(id, run, { event: batcher.push, connected: setConnected }, stop.signal)
      .catch((error: unknown) => setError({ id, error }))
      .finally(() => {
        batcher.flush();
        setConnected(true);
        if (stop.signal.aborted) return;
        setEnded(run);
        onEnd();
      });
    return () => {
      stop.abort();
      batcher.drop();
    };
  }, [id, run, visible]);

  const updated = data?.thread.updated_at ?? null;
  const isStreaming = isActive && ended !== run;
  useEffect(() => {
    if (id === null || updated === null || !visible || isStreaming) return;
    const stop = new AbortController();
    const timer = setInterval(() => {
      // A new load would abort a slow one.
      if (isLoading.current) return;
      api.thread(id, stop.signal).then(
        // A run whose stream has ended may still have been active when the thread was loaded.
        (it) => (isActive || it.updated_at !== updated) && refresh(),
        () => {},
      );
    }, POLL_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [id, updated, visible, isActive, isStreaming, refresh]);

  const view = useMemo(() => {
    if (data === null) return null;
    const current = live !== null && live.run === run && !started ? live : null;
    const checkpoints = mergeCheckpoints(data.checkpoints, isActive && current ? current.checkpoints : []);
    return { ...data, checkpoints, live: current, active: isActive ? newest : null, head: checkpoints.at(-1) ?? null };
  }, [data, live, run, started, isActive, newest]);
  const isBusy = started || (data !== null && isActive);
  return { view, error: error?.id === id ? error?.error : null, connected, isBusy, refresh, runStarted };
}

/** Loads the checkpoints after the runs, so that a run that has ended is never shown without its last checkpoint. */
async function load(id: string, signal: AbortSignal): Promise<Loaded> {
  const [thread, runs] = await Promise.all([api.thread(id, signal), api.runs(id, { limit: RUNS, offset: 0 }, signal)]);
  const [history, state] = await Promise.all([api.history(id, signal), api.state(id, signal)]);
  const checkpoints = history
    .toReversed()
    // Only the newest state was requested with the states of its subgraphs.
    .map((it) => toCheckpoint(it.checkpoint_id === state.checkpoint_id ? state : it))
    .filter((it) => it !== null);
  return { thread, checkpoints, runs };
}
