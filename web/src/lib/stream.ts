/**
 * Follows the events of a run. A connection that breaks before the end of the run is reopened after the last received
 * event, so that no event is lost or repeated.
 *
 * A browser opens only a few connections to a server, and all its pages share them. Therefore only one page of a
 * browser keeps a stream open, and the others poll.
 */

import { api } from "./api";
import { pauseBeforeRetry, readEvents } from "./event-stream";
import type { RunEvent } from "./events";
import { ApiError } from "./http";
import { isLive } from "./status";
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

const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 8_000;
const POLL_MS = 1_000;

/** Name of the lock that a page holds while it keeps a stream open. */
const STREAM_LOCK = "consulting.stream";

/** Follows the events until the run ends or the signal aborts. */
export async function follow(id: string, listener: Listener, outer: AbortSignal): Promise<void> {
  const finished = new AbortController();
  const signal = AbortSignal.any([outer, finished.signal]);
  try {
    await followWith(streamPermit(signal), id, listener, signal);
  } finally {
    finished.abort();
  }
}

interface StreamPermit {
  /** Whether this page may keep a stream open. */
  isHeld: () => boolean;
  /** Resolves when this page may keep a stream open. */
  granted: Promise<void>;
}

/** Waits for the permit to keep a stream open, and keeps it until the signal aborts. */
function streamPermit(signal: AbortSignal): StreamPermit {
  // Browsers provide locks only to pages from this machine and to pages over HTTPS.
  if (!("locks" in navigator)) return { isHeld: () => true, granted: Promise.resolve() };
  let held = false;
  const granted = new Promise<void>((resolve) => {
    const keep = (): Promise<void> => {
      held = true;
      resolve();
      return new Promise((release) => signal.addEventListener("abort", () => release()));
    };
    // The request is rejected when the signal aborts while it waits.
    navigator.locks.request(STREAM_LOCK, { signal }, keep).catch(() => {});
  });
  return { isHeld: () => held, granted };
}

async function followWith(permit: StreamPermit, id: string, listener: Listener, signal: AbortSignal): Promise<void> {
  let pause = MIN_RETRY_MS;
  while (!signal.aborted) {
    const before = listener.last();
    try {
      if (!permit.isHeld()) {
        if (await poll(id, listener, signal)) return;
        pause = MIN_RETRY_MS;
        await Promise.race([pauseBeforeRetry(POLL_MS, signal), permit.granted]);
        continue;
      }
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
    await pauseBeforeRetry(pause, signal);
  }
}

/** Requests the stored events that follow the last received one; returns true if the run has ended. */
async function poll(id: string, listener: Listener, signal: AbortSignal): Promise<boolean> {
  // Request the status before the events: if the run has ended by then, the events include its end.
  const { status } = await api.run(id, signal);
  const { events } = await api.events(id, listener.last(), signal);
  listener.connected(true);
  for (const it of events) listener.event(it);
  if (isLive(status) || events.length > 0) return false;
  listener.end(status);
  return true;
}

/** Reads one connection; returns true if the server ended the stream. */
async function readOnce(id: string, listener: Listener, signal: AbortSignal): Promise<boolean> {
  const last = listener.last();
  let ended: RunStatus | null = null;
  const status = await readEvents(
    `/api/stream/${encodeURIComponent(id)}`,
    last > 0 ? String(last) : null,
    {
      open: () => listener.connected(true),
      event: ({ event, data }) => {
        if (event === "end") ended = (JSON.parse(data) as { status: RunStatus }).status;
        else listener.event(JSON.parse(data) as RunEvent);
      },
    },
    signal,
  );
  // Without content, the run ended and all its events were received.
  if (status === 204) ended = (await api.run(id, signal)).status;
  if (ended !== null) listener.end(ended);
  return ended !== null;
}
