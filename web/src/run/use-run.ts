/** Follows one run: what the server says of it, and what its events tell. */

import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "react";

import { ApiError, api } from "@/lib/api";
import type { RunEvent } from "@/lib/events";
import { isLive } from "@/lib/status";
import { follow } from "@/lib/stream";
import type { Run, RunStatus } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";

import { type Sample, remember } from "./estimate";
import { fold, heal } from "./fold";
import { type RunView, atRest, emptyView } from "./view";

interface Followed {
  run: Run | null;
  view: RunView;
  /** False while a lost connection is tried again. */
  connected: boolean;
  /** Why the server does not tell the run. */
  error: ApiError | null;
  /** Why the server does not tell the run's events; asking again is up to the person. */
  refused: ApiError | null;
  samples: Sample[];
  /** Asks again at once and listens again, after something was done to the run. */
  refresh: () => void;
}

type Action = { kind: "events" | "stored"; events: RunEvent[] };

function reduce(view: RunView, action: Action): RunView {
  return action.kind === "events" ? fold(view, action.events) : heal(view, action.events);
}

/** The component that uses this has the run's id as its key, so a view never mixes two runs. */
export function useRun(id: string): Followed {
  const [view, dispatch] = useReducer(reduce, undefined, emptyView);
  const [run, setRun] = useState<Run | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [refused, setRefused] = useState<ApiError | null>(null);
  const [samples, setSamples] = useState<Sample[]>([]);
  const [connected, setConnected] = useState(true);
  const [attempt, setAttempt] = useState(0);
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
        // Somebody else let it go on: there is something to listen to again.
        if (status.current && !isLive(status.current) && isLive(next.status)) refresh();
        status.current = next.status;
        // Who takes part never changes; as the same object it lets the picture stand as it is.
        setRun((it) => ({ ...next, config: it?.config ?? next.config }));
        setError(null);
        setSamples((it) => remember(it, { at: Date.now(), calls: next.usage.calls }));
      } catch (cause) {
        if (signal?.aborted || !(cause instanceof ApiError)) return;
        // While the server is away the connection says so; what is known stays on the page.
        if (cause.status >= 400 && cause.status < 500) setError(cause);
      }
    },
    [id, refresh],
  );

  // A run that stopped can go on; one that is complete does so only where a person wants it to.
  const pause = run === null || isLive(run.status) ? 2000 : run.status === "complete" ? null : 10_000;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    // The next question waits for the answer: on a slow server they would pile up and hold the events back.
    const ask = async (): Promise<void> => {
      await load(stop.signal);
      if (pause !== null && !stop.signal.aborted) timer = setTimeout(() => void ask(), pause);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [load, pause, attempt]);

  useEffect(() => {
    const stop = new AbortController();
    setRefused(null);
    const batch = collect((events) => dispatch({ kind: "events", events }));
    void follow(
      id,
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
  }, [id, load, attempt]);

  // Between what is known and what came there is a gap: the server is asked for what lies in it, as often as it takes.
  const gap = view.ahead.length > 0 ? view.last : null;
  const { value: missing } = useFetched(gap === null ? null : `${id} ${gap}`, (signal) =>
    api.events(id, gap ?? 0, signal),
  );
  useEffect(() => {
    if (missing) dispatch({ kind: "stored", events: missing.events });
  }, [missing]);

  const rests = run !== null && !isLive(run.status);
  const shown = useMemo(() => (rests ? atRest(view) : view), [rests, view]);
  return { run, view: shown, connected, error, refused, samples, refresh };
}

/** Gathers events that come close together, so that a replay of hundreds is drawn a few times and not hundreds. */
function collect(deliver: (events: RunEvent[]) => void): {
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
