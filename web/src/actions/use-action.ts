import { useState } from "react";

/** Runs asynchronous actions. Reports whether an action is running, and the error of the last one. */
export function useAction(): { busy: boolean; error: unknown; run: (work: () => Promise<unknown>) => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const run = (work: () => Promise<unknown>): void => {
    setBusy(true);
    setError(null);
    work()
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return { busy, error, run };
}
