/**
 * Streams the events of a run. A connection that breaks before the end of the run is reopened after the last received
 * event, so that no event is lost or repeated.
 */

import { createParser } from "eventsource-parser";

import { api, ApiError, send } from "./api";
import type { RunEvent } from "./events";
import type { RunStatus } from "./types";

interface Listener {
  /** Sequence number of the last received event. */
  last: () => number;
  event: (event: RunEvent) => void;
  /** The connection was opened, or was lost and is being retried. */
  connected: (is: boolean) => void;
  /** The server ended the stream. */
  end: (status: RunStatus) => void;
  /** The server rejected the request; retrying is pointless. */
  refused: (error: ApiError) => void;
}

/** Without a heartbeat for this long, the connection is considered dead. */
const SILENCE_TIMEOUT_MS = 20_000;
const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 8_000;

/** Streams events until the run ends or the signal aborts. */
export async function follow(id: string, listener: Listener, signal: AbortSignal): Promise<void> {
  let pause = MIN_RETRY_MS;
  while (!signal.aborted) {
    const before = listener.last();
    try {
      if (await readOnce(id, listener, signal)) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
        listener.refused(error);
        return;
      }
    }
    if (signal.aborted) return;
    listener.connected(false);
    pause = listener.last() > before ? MIN_RETRY_MS : Math.min(pause * 2, MAX_RETRY_MS);
    await sleep(pause, signal);
  }
}

/** Reads one connection; returns true if the server ended the stream. */
async function readOnce(id: string, listener: Listener, outer: AbortSignal): Promise<boolean> {
  const watchdog = new AbortController();
  const signal = AbortSignal.any([outer, watchdog.signal]);
  const last = listener.last();
  let ended: RunStatus | null = null;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (event === "end") ended = (JSON.parse(data) as { status: RunStatus }).status;
      else listener.event(JSON.parse(data) as RunEvent);
    },
  });
  let timer = setTimeout(() => watchdog.abort(), SILENCE_TIMEOUT_MS);
  try {
    const answer = await send(`/api/stream/${encodeURIComponent(id)}`, {
      headers: { Accept: "text/event-stream", ...(last > 0 && { "Last-Event-ID": String(last) }) },
      cache: "no-store",
      signal,
    });
    listener.connected(true);
    if (answer.status === 204) {
      // The run ended, and all its events were received.
      listener.end((await api.run(id, signal)).status);
      return true;
    }
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      clearTimeout(timer);
      timer = setTimeout(() => watchdog.abort(), SILENCE_TIMEOUT_MS);
      parser.feed(value);
    }
  } finally {
    clearTimeout(timer);
  }
  if (ended !== null) listener.end(ended);
  return ended !== null;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
