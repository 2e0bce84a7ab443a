import { createContext, useContext } from "react";

import type { Statuses } from "./status";

export interface GraphContextValue {
  statuses: Statuses;
  /** Nodes before which runs stop. */
  breakpoints: ReadonlySet<string>;
  onToggleSubgraph: (id: string) => void;
  onToggleBreakpoint: (id: string) => void;
}

export const GraphContext = createContext<GraphContextValue | null>(null);

export function useGraph(): GraphContextValue {
  const value = useContext(GraphContext);
  if (!value) throw new Error("useGraph must be used within GraphContext");
  return value;
}
