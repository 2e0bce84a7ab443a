/** The place in the studio that the URL names: graph, thread, checkpoint and view. */

import { navigate, usePageLocation, withQuery } from "@/lib/router";

export interface Place {
  /** Id of the assistant, or of the graph for its default assistant. */
  graph: string | null;
  thread: string | null;
  /** The selected checkpoint; null means the newest. */
  checkpoint: string | null;
  /** The checkpoint that the selected one is compared with. */
  compare: string | null;
  view: "run" | "store";
}

/** Path of the page. */
const PATH = import.meta.env.BASE_URL.replace(/(.)\/$/, "$1");

const NAMES = ["graph", "thread", "checkpoint", "compare", "view"] as const;

export function usePlace(): Place {
  const { query } = usePageLocation();
  return {
    graph: query.get("graph"),
    thread: query.get("thread"),
    checkpoint: query.get("checkpoint"),
    compare: query.get("compare"),
    view: query.get("view") === "store" ? "store" : "run",
  };
}

/** Returns the URL of a place. Parts that are left out are not selected. */
export function hrefOf(place: Partial<Place>): string {
  const change = Object.fromEntries(
    NAMES.map((name) => [name, name === "view" && place.view === "run" ? null : (place[name] ?? null)]),
  );
  return withQuery({ path: PATH, query: new URLSearchParams() }, change);
}

export const goTo = (place: Partial<Place>): void => navigate(hrefOf(place));
