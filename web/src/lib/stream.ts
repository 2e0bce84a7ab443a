/**
 * Reads a run's events as they come. A connection that breaks before the server said that the run is at its end is
 * opened again after the last event that was read, so nothing is lost and nothing is asked for twice.
 */

import { createParser } from "eventsource-parser";

import { ApiError, send } from "./api";
import type { RunEvent } from "./events";
import type { RunStatus } from "./types";

interface Listener {
  /** The last event that was read, from which to go on. */
  last: () => number;
  event: (event: RunEvent) => void;
  /** The connection is there, or it broke and is tried again. */
  connected: (is: boolean) => void;
  /** The server will tell nothing more for now. */
  end: (status: RunStatus) => void;
  /** The server refused; trying again makes no sense. */
  refused: (error: ApiError) => void;
}

/** No beat for so long means that the connection is dead, even if nobody said so. */
const SILENCE = 20_000;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8_000;

/** Follows a run until its end or until the signal is given. */
export async function follow(id: string, listener: Listener, signal: AbortSignal): Promise<void> {
  let pause = FIRST_PAUSE;
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
    pause = listener.last() > before ? FIRST_PAUSE : Math.min(pause * 2, LONGEST_PAUSE);
    await sleep(pause, signal);
  }
}

/** Reads one connection; true if the server said that this is the end. */
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
  let timer = setTimeout(() => watchdog.abort(), SILENCE);
  try {
    const answer = await send(`/api/stream/${encodeURIComponent(id)}`, {
      headers: { Accept: "text/event-stream", ...(last > 0 && { "Last-Event-ID": String(last) }) },
      cache: "no-store",
      signal,
    });
    listener.connected(true);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      clearTimeout(timer);
      timer = setTimeout(() => watchdog.abort(), SILENCE);
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
