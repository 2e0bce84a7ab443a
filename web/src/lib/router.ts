/**
 * Client-side routing. The URL holds the complete navigation state, so that reload, bookmarks and the back button work.
 */

import { useSyncExternalStore } from "react";

export interface PageLocation {
  path: string;
  query: URLSearchParams;
}

const listeners = new Set<() => void>();
let current = read();

function read(): PageLocation & { key: string } {
  return {
    path: location.pathname,
    query: new URLSearchParams(location.search),
    key: location.pathname + location.search,
  };
}

function update(): void {
  current = read();
  for (const it of listeners) it();
}

window.addEventListener("popstate", update);

/** Navigates to a path within the application. */
export function navigate(to: string): void {
  if (to === current.key) return;
  const { path } = current;
  history.pushState(null, "", to);
  update();
  if (current.path !== path) window.scrollTo({ top: 0 });
}

/** Returns the path with changed query parameters; null removes a parameter. */
export function withQuery(place: PageLocation, change: Record<string, string | null>): string {
  const query = new URLSearchParams(place.query);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return text === "" ? place.path : `${place.path}?${text}`;
}

export function usePageLocation(): PageLocation {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
