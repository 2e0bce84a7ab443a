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
  /** Id of the selected stage or agent. */
  selected: string | null;
}

export const GraphContext = createContext<GraphContextValue | null>(null);

/** Data and callbacks for the nodes of the graph. The layout does not depend on the progress of the run. */
export function useGraph(): GraphContextValue {
  const value = useContext(GraphContext);
  if (!value) throw new Error("useGraph must be used within GraphContext");
  return value;
}
