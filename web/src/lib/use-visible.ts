import { useSyncExternalStore } from "react";

/**
 * Whether the page is visible. A hidden page releases its event stream, because a browser opens only a few connections
 * to a server, and all tabs share them.
 */
export function useVisible(): boolean {
  return useSyncExternalStore(
    (changed) => {
      document.addEventListener("visibilitychange", changed);
      return () => document.removeEventListener("visibilitychange", changed);
    },
    () => document.visibilityState !== "hidden",
  );
}
