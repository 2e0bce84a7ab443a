import { useEffect, useState } from "react";

import { useVisible } from "@/lib/use-visible";

/** Returns a number that changes at the given interval while the page is visible. */
export function useClock(ms: number): number {
  const [tick, setTick] = useState(0);
  const visible = useVisible();
  useEffect(() => {
    if (!visible) return;
    const timer = setInterval(() => setTick((it) => it + 1), ms);
    return () => clearInterval(timer);
  }, [ms, visible]);
  return tick;
}
