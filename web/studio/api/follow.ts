/**
 * Streams the events of a run. A connection that breaks before the end of the run is reopened after the last received
 * event, so that no event is lost or repeated.
 */

import { pauseBeforeRetry, readEvents, type StreamEvent } from "@/lib/event-stream";
import { ApiError } from "@/lib/http";

import { api } from "./client";
import type { Run } from "./types";

interface Listener {
  event: (event: StreamEvent) => void;
  /** The connection was opened, or was lost and is being retried. */
  connected: (is: boolean) => void;
}

/** The event id before the first event of a stream. */
const BEGINNING = "-1";
const MIN_RETRY_MS = 300;
const MAX_RETRY_MS = 8_000;

/** Streams events from the beginning of the run to its end. Returns the ended run, or null if the signal aborts. */
export async function follow(
  thread: string,
  run: string,
  listener: Listener,
  signal: AbortSignal,
): Promise<Run | null> {
  let last = BEGINNING;
  let pause = MIN_RETRY_MS;
  while (!signal.aborted) {
    const before = last;
    try {
      const open = (): void => listener.connected(true);
      const event = (it: StreamEvent): void => {
        if (it.id !== null) last = it.id;
        listener.event(it);
      };
      await readEvents(api.runEvents(thread, run), last, { open, event }, signal);
      // The stream ends with the run, and also when the server shuts down.
      const ended = await api.run(thread, run, signal);
      if (ended.status !== "pending" && ended.status !== "running") return ended;
    } catch (error) {
      if (signal.aborted) return null;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
      listener.connected(false);
    }
    pause = last === before ? Math.min(pause * 2, MAX_RETRY_MS) : MIN_RETRY_MS;
    await pauseBeforeRetry(pause, signal);
  }
  return null;
}
