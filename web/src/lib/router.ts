/** Where the page is: the address says everything, so that a reload, a bookmark and the back button work. */

import { useSyncExternalStore } from "react";

export interface Place {
  path: string;
  query: URLSearchParams;
}

const listeners = new Set<() => void>();
let current = read();

function read(): Place & { key: string } {
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

/** Goes to an address within the page. */
export function go(to: string): void {
  if (to === current.key) return;
  const { path } = current;
  history.pushState(null, "", to);
  update();
  if (current.path !== path) window.scrollTo({ top: 0 });
}

/** The same place with some of its query changed; null takes a part out. */
export function withQuery(place: Place, change: Record<string, string | null>): string {
  const query = new URLSearchParams(place.query);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return text === "" ? place.path : `${place.path}?${text}`;
}

export function usePlace(): Place {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
