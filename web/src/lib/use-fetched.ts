/** Data fetching for components. */

import { useEffect, useEffectEvent, useState } from "react";

import { ApiError } from "./http";

/** Delay before a retry after a transient failure. */
const RETRY_MS = 3000;

export interface Fetched<T> {
  value: T | null;
  error: unknown;
}

const EMPTY = { value: null, error: null };

/**
 * Returns the result of `load` for a key; nothing is loaded without a key. A new key discards the previous value; a new
 * `again` reloads and keeps the value until then. Transient failures are retried until they succeed.
 */
export function useFetched<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  again: string | number = 0,
): Fetched<T> {
  const [state, setState] = useState<Fetched<T> & { key: string | null }>({ key: null, ...EMPTY });
  const ask = useEffectEvent(load);
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const attempt = (): void => {
      ask(stop.signal).then(
        (value) => {
          if (!stop.signal.aborted) setState({ key, value, error: null });
        },
        (error: unknown) => {
          if (stop.signal.aborted) return;
          setState((it) => ({ key, value: it.key === key ? it.value : null, error }));
          if (isTransient(error)) timer = setTimeout(attempt, RETRY_MS);
        },
      );
    };
    attempt();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, again]);
  return state.key === key ? state : EMPTY;
}

function isTransient(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}
