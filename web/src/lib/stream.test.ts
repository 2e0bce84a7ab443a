import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { jobEvents } from "../../sandbox/api";
import { runEvents } from "./api";
import { type EventLog, follow } from "./stream";

/** Locks of a browser, shared by all its pages: the first requester holds a lock until its callback resolves. */
function fakeLocks() {
  let tail: Promise<unknown> = Promise.resolve();
  return {
    request: (_name: string, { signal }: { signal: AbortSignal }, callback: () => Promise<void>): Promise<unknown> => {
      const mine = tail.then(() => (signal.aborted ? undefined : callback()));
      tail = mine;
      return mine;
    },
  };
}

interface NumberedEvent {
  seq: number;
}

/** A page that follows a run. */
function follower<E extends NumberedEvent, S extends string>(log: EventLog<E, S>) {
  const stop = new AbortController();
  const seen: number[] = [];
  const state = { ended: "" };
  const followed = follow(
    log,
    {
      last: () => seen.at(-1) ?? 0,
      event: (it) => seen.push(it.seq),
      connected: () => {},
      end: (status) => (state.ended = status),
      refused: () => {},
    },
    stop.signal,
  );
  return { stop, seen, state, followed };
}

describe.each([
  { of: "runs", page: (id = "r") => follower(runEvents(id)) },
  { of: "jobs", page: (id = "j") => follower(jobEvents(id)) },
])("several pages of one browser that follow $of", ({ page }) => {
  /** The event after which each stream was opened. */
  let streams: (string | null)[] = [];
  let stored: NumberedEvent[] = [];
  let status = "running";

  beforeEach(() => {
    vi.useFakeTimers();
    [streams, stored, status] = [[], [{ seq: 1 }], "running"];
    vi.stubGlobal("window", { addEventListener: () => {}, removeEventListener: () => {} });
    vi.stubGlobal("sessionStorage", { getItem: () => null });
    vi.stubGlobal("navigator", { locks: fakeLocks() });
    vi.stubGlobal("fetch", (path: string, { signal, headers }: RequestInit) => {
      if (path.includes("/stream")) {
        streams.push(new Headers(headers).get("last-event-id"));
        const body = new ReadableStream<Uint8Array>({
          start: (it) => signal!.addEventListener("abort", () => it.error(new Error("aborted"))),
        });
        return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
      }
      const after = Number(/after=(\d+)/.exec(path)?.[1] ?? 0);
      const events = stored.filter((it) => it.seq > after);
      return Promise.resolve(Response.json(path.includes("/events") ? { events, last: 0 } : { status }));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("share one stream, and the others poll", async () => {
    const [first, second] = [page(), page()];
    await vi.advanceTimersByTimeAsync(3000);
    expect(streams).toEqual(["1"]);
    stored.push({ seq: 2 });
    await vi.advanceTimersByTimeAsync(3000);
    expect(second.seen).toEqual([1, 2]);
    expect(streams).toEqual(["1"]);

    // When the page with the stream is hidden or closed, another one takes over after its last event.
    first.stop.abort();
    await vi.advanceTimersByTimeAsync(3000);
    expect(streams).toEqual(["1", "2"]);
    second.stop.abort();
    await Promise.all([first.followed, second.followed]);
  });

  it("share one stream if they show different runs", async () => {
    const [first, second] = [page("a"), page("b")];
    await vi.advanceTimersByTimeAsync(3000);
    expect(streams).toEqual(["1"]);
    expect(second.seen).toEqual([1]);
    first.stop.abort();
    second.stop.abort();
    await Promise.all([first.followed, second.followed]);
  });

  it("keep one stream each if the browser provides no locks", async () => {
    vi.stubGlobal("navigator", {});
    const [first, second] = [page(), page()];
    await vi.advanceTimersByTimeAsync(3000);
    expect(streams).toEqual([null, null]);
    first.stop.abort();
    second.stop.abort();
    await Promise.all([first.followed, second.followed]);
  });

  it("all notice the end of the run", async () => {
    const [first, second] = [page(), page()];
    await vi.advanceTimersByTimeAsync(1500);
    status = "complete";
    await vi.advanceTimersByTimeAsync(3000);
    expect(second.state.ended).toBe("complete");
    first.stop.abort();
    await Promise.all([first.followed, second.followed]);
  });
});
