/**
 * Follows the events of a run or a job. A connection that breaks before the end of the run is reopened after the last
 * received event, so that no event is lost or repeated.
 *
 * A browser opens only a few connections to a server, and all its pages share them. Therefore only one page of a
 * browser keeps a stream open, and the others poll.
 */

import { pauseBeforeRetry, readEvents } from "./event-stream";
import { ApiError } from "./http";

/** The events of one run, and its status. */
export interface EventLog<Event, Status> {
  /** Path of the event stream. */
  stream: string;
  /** Requests stored events with sequence numbers greater than `after`. */
  stored: (after: number, signal: AbortSignal) => Promise<Event[]>;
  status: (signal: AbortSignal) => Promise<Status>;
  /** Whether more events follow without a request of the user. */
  isLive: (status: Status) => boolean;
}

interface Listener<Event, Status> {
  /** Sequence number of the last received event. */
  last: () => number;
  event: (event: Event) => void;
  /** The connection was opened, or was lost and is being retried. */
  connected: (is: boolean) => void;
  /** The server ended the stream. */
  end: (status: Status) => void;
  /** The server rejected the request; retrying is pointless. */
  refused: (error: ApiError) => void;
}

const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 8_000;
const POLL_MS = 1_000;

/** Name of the lock that a page holds while it keeps a stream open. */
const STREAM_LOCK = "event-stream";

/** Follows the events until the run ends or the signal aborts. */
export async function follow<E, S>(log: EventLog<E, S>, listener: Listener<E, S>, outer: AbortSignal): Promise<void> {
  const finished = new AbortController();
  const signal = AbortSignal.any([outer, finished.signal]);
  try {
    await followWith(streamPermit(signal), log, listener, signal);
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
    // The promise rejects if the signal aborts while the request waits for the lock.
    navigator.locks.request(STREAM_LOCK, { signal }, keep).catch(() => {});
  });
  return { isHeld: () => held, granted };
}

async function followWith<E, S>(
  permit: StreamPermit,
  log: EventLog<E, S>,
  listener: Listener<E, S>,
  signal: AbortSignal,
): Promise<void> {
  let pause = MIN_RETRY_MS;
  while (!signal.aborted) {
    const before = listener.last();
    try {
      if (!permit.isHeld()) {
        if (await poll(log, listener, signal)) return;
        pause = MIN_RETRY_MS;
        await Promise.race([pauseBeforeRetry(POLL_MS, signal), permit.granted]);
        continue;
      }
      if (await readOnce(log, listener, signal)) return;
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
async function poll<E, S>(log: EventLog<E, S>, listener: Listener<E, S>, signal: AbortSignal): Promise<boolean> {
  // Request the status before the events: if the run has ended by then, the events include its end.
  const status = await log.status(signal);
  const events = await log.stored(listener.last(), signal);
  listener.connected(true);
  for (const it of events) listener.event(it);
  if (log.isLive(status) || events.length > 0) return false;
  listener.end(status);
  return true;
}

/** Reads one connection; returns true if the server ended the stream. */
async function readOnce<E, S>(log: EventLog<E, S>, listener: Listener<E, S>, signal: AbortSignal): Promise<boolean> {
  const last = listener.last();
  let ended: S | null = null;
  const status = await readEvents(
    log.stream,
    last > 0 ? String(last) : null,
    {
      open: () => listener.connected(true),
      event: ({ event, data }) => {
        if (event === "end") ended = (JSON.parse(data) as { status: S }).status;
        else listener.event(JSON.parse(data) as E);
      },
    },
    signal,
  );
  // Without content, the run ended and all its events were received.
  if (status === 204) ended = await log.status(signal);
  if (ended !== null) listener.end(ended);
  return ended !== null;
}
