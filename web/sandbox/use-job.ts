import { useEffect, useReducer, useRef, useState } from "react";

import { pauseBeforeRetry, readEvents } from "@/lib/event-stream";
import { ApiError } from "@/lib/http";
import { useVisible } from "@/lib/use-visible";

import { type Job, api, isActive } from "./api";
import { type JobEvent, type JobProgress, NO_PROGRESS, applyEvent } from "./attempts";

const RETRY_MS = 1500;

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
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [connected, setConnected] = useState(true);
  const visible = useVisible();
  const last = useRef<string | null>(null);
  useEffect(() => {
    if (!visible) return;
    const stop = new AbortController();
    const follow = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        try {
          const found = await api.job(id, stop.signal);
          setJob(found);
          setConnected(true);
          const event = (it: { event: string; data: string; id: string | null }): void => {
            if (it.id !== null) last.current = it.id;
            if (it.event !== "end") dispatch(JSON.parse(it.data) as JobEvent);
          };
          await readEvents(api.stream(id), last.current, { open: () => setConnected(true), event }, stop.signal);
          const ended = await api.job(id, stop.signal);
          setJob(ended);
          if (!isActive(ended.status)) return;
        } catch (cause) {
          if (stop.signal.aborted) return;
          // The server limits the rate of requests and the number of streams, so a response with status 429 is
          // temporary.
          const refused = cause instanceof ApiError && cause.status >= 400 && cause.status < 500;
          if (refused && cause.status !== 429) return setError(cause);
          setConnected(false);
        }
        await pauseBeforeRetry(RETRY_MS, stop.signal);
      }
    };
    setError(null);
    void follow();
    return () => stop.abort();
  }, [id, version, visible]);
  return { job, progress, error, connected };
}
