import { useEffect, useReducer, useRef, useState } from "react";

import type { ApiError } from "@/lib/http";
import { follow } from "@/lib/stream";
import { useFetched } from "@/lib/use-fetched";
import { useVisible } from "@/lib/use-visible";

import { type Job, api, jobEvents } from "./api";
import { type JobEvent, type JobProgress, NO_PROGRESS, applyEvent } from "./attempts";

interface JobState {
  job: Job | null;
  progress: JobProgress;
  error: unknown;
  connected: boolean;
}

/**
 * Follows a job: its events until it ends, then its result. `version` changes when the job is resumed. The component must
 * use the job id as its key.
 */
export function useJob(id: string, version: number): JobState {
  const [progress, dispatch] = useReducer(applyEvent, NO_PROGRESS);
  const [refused, setRefused] = useState<ApiError | null>(null);
  const [connected, setConnected] = useState(true);
  const [changes, setChanges] = useState(0);
  const { value: job, error } = useFetched(id, (signal) => api.job(id, signal), `${version} ${changes}`);
  const visible = useVisible();
  const last = useRef(0);
  useEffect(() => {
    if (!visible) return;
    const stop = new AbortController();
    const reload = (): void => setChanges((it) => it + 1);
    const event = (it: JobEvent): void => {
      last.current = it.seq;
      dispatch(it);
      // The job has left the queue.
      if (it.type === "started") reload();
    };
    setRefused(null);
    void follow(
      jobEvents(id),
      { last: () => last.current, event, connected: setConnected, end: reload, refused: setRefused },
      stop.signal,
    );
    return () => stop.abort();
  }, [id, version, visible]);
  // Once the job is shown, a failure to load it again is retried, and the connection status is shown instead.
  return { job, progress, error: refused ?? (job === null ? error : null), connected };
}
