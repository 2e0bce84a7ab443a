/** Events of a run. */

import type { IsolationLevel } from "./isolation";

export type LayerId = 0 | 1 | 2 | "sandbox";

type RoundStatus = "critic_responding" | "critic_responded" | "dm_responding" | "dm_responded";

/** Scores of one decision maker: a number per metric, and the reasoning. */
export interface MakerScore {
  reasoning: string;
  score_source?: string;
  adjustments?: unknown[];
  [metric: string]: unknown;
}

export type RunEvent = { seq: number; at?: string } & (
  | { type: "layer_start"; layer: LayerId }
  | {
      type: "layer_complete";
      layer: LayerId;
      status?: "done" | "incomplete";
      artifacts: string[];
      total_policies_scored?: number;
    }
  | { type: "agent_start"; layer: LayerId; agent_id: string; persona: string }
  | { type: "agent_complete"; layer: LayerId; agent_id: string; outputs: string[] }
  | { type: "agent_failed"; layer: LayerId; agent_id: string; reason: string }
  | { type: "sandbox_ready"; move: string; title: string; backend: string; isolation: IsolationLevel }
  | { type: "sandbox_round"; move: string; round: number; status: RoundStatus; texts?: Record<string, string> }
  | { type: "sandbox_scored"; move: string; score: number; breakdown: Record<string, MakerScore> }
  // Present if the event concerns a single debate: the move under debate.
  | { type: "sandbox_degraded"; move?: string; backend: string; isolation: IsolationLevel; reason: string }
  | { type: "sandbox_skipped"; move: string; reason: string }
  | { type: "budget_warning"; percent: number }
  | { type: "budget_exceeded"; reason: string }
  | { type: "pipeline_complete"; recommended: string[]; other: string[] }
  | { type: "pipeline_error"; message: string }
);
