import { useEffect, useState } from "react";

/** Delay after which a query that is being typed is sent. */
const DELAY_MS = 250;

/** Returns the latest value that has remained unchanged for `DELAY_MS`. */
export function useDebounced<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), DELAY_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
