import type { StreamEvent } from "@/lib/event-stream";

/** Interval between updates of the page. */
const INTERVAL_MS = 40;

interface EventBatcher {
  push: (event: StreamEvent) => void;
  /** Passes the collected events on immediately. */
  flush: () => void;
  /** Discards the collected events. */
  drop: () => void;
}

/** Collects events, so that a burst of them updates the page only once. */
export function eventBatcher(apply: (events: StreamEvent[]) => void): EventBatcher {
  let waiting: StreamEvent[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const events = waiting;
    waiting = [];
    if (events.length > 0) apply(events);
  };
  return {
    push: (event) => {
      waiting.push(event);
      timer ??= setTimeout(flush, INTERVAL_MS);
    },
    flush,
    drop: () => {
      clearTimeout(timer);
      waiting = [];
    },
  };
}
