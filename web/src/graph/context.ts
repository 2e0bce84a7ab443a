import { createContext, useContext } from "react";

import type { Run } from "@/lib/types";
import type { RunView } from "@/run/view";

export interface GraphContextValue {
  run: Run;
  view: RunView;
  moves: string[];
  openStage: (stage: string) => void;
  openAgent: (agent: string) => void;
  openDebate: (move: string) => void;
  /** What is selected: a stage or an agent. */
  selected: string | null;
}

export const GraphContext = createContext<GraphContextValue | null>(null);

/** What the nodes of the picture show and call; the picture's layout does not change when a run goes on. */
export function useGraph(): GraphContextValue {
  const value = useContext(GraphContext);
  if (!value) throw new Error("a node of the graph outside of it");
  return value;
}
