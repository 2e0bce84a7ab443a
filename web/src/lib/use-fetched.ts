/** Something that the server has, as a component shows it. */

import { useEffect, useEffectEvent, useState } from "react";

import { ApiError } from "./api";

/** So long after a failure that may pass by itself the server is asked again. */
const PAUSE = 3000;

export interface Fetched<T> {
  value: T | null;
  error: unknown;
}

const NOTHING = { value: null, error: null };

/**
 * What `load` gives for a key; without a key nothing is asked for. Another key forgets what was there, another `again`
 * asks for it anew and keeps it until the answer comes. A server that cannot be reached is asked until it answers.
 */
export function useFetched<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  again: string | number = 0,
): Fetched<T> {
  const [held, setHeld] = useState<Fetched<T> & { key: string | null }>({ key: null, ...NOTHING });
  const ask = useEffectEvent(load);
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const attempt = (): void => {
      ask(stop.signal).then(
        (value) => {
          if (!stop.signal.aborted) setHeld({ key, value, error: null });
        },
        (error: unknown) => {
          if (stop.signal.aborted) return;
          setHeld((it) => ({ key, value: it.key === key ? it.value : null, error }));
          if (mayPass(error)) timer = setTimeout(attempt, PAUSE);
        },
      );
    };
    attempt();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, again]);
  return held.key === key ? held : NOTHING;
}

function mayPass(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}
