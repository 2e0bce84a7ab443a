/** Server-sent events over `fetch`, which can send the API key in a header. */

import { createParser } from "eventsource-parser";

import { send } from "./http";

export interface StreamEvent {
  event: string;
  data: string;
  id: string | null;
}

/** Without a heartbeat for this long, the connection is considered dead. */
const SILENCE_TIMEOUT_MS = 20_000;

/**
 * Reads one connection until the server ends it. `lastId` is the id of the last received event. Returns the status of
 * the response.
 */
export async function readEvents(
  path: string,
  lastId: string | null,
  listener: { open: () => void; event: (event: StreamEvent) => void },
  outer: AbortSignal,
): Promise<number> {
  const watchdog = new AbortController();
  const signal = AbortSignal.any([outer, watchdog.signal]);
  const parser = createParser({
    onEvent: ({ event, data, id }) => listener.event({ event: event ?? "message", data, id: id ?? null }),
  });
  let timer = setTimeout(() => watchdog.abort(), SILENCE_TIMEOUT_MS);
  try {
    const answer = await send(path, {
      headers: { Accept: "text/event-stream", ...(lastId !== null && { "Last-Event-ID": lastId }) },
      cache: "no-store",
      signal,
    });
    listener.open();
    if (answer.status === 204) return answer.status;
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return answer.status;
      clearTimeout(timer);
      timer = setTimeout(() => watchdog.abort(), SILENCE_TIMEOUT_MS);
      parser.feed(value);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Waits before a connection is reopened. Returns early when the browser is online again. */
export function pauseBeforeRetry(ms: number, signal: AbortSignal): Promise<void> {
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
