/**
 * Streams the events of a run. A connection that breaks before the end of the run is reopened after the last received
 * event, so that no event is lost or repeated.
 */

import { api } from "./api";
import { pauseBeforeRetry, readEvents } from "./event-stream";
import type { RunEvent } from "./events";
import { ApiError } from "./http";
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
    await pauseBeforeRetry(pause, signal);
  }
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
