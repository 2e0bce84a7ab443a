/** Events in words, for the list of what happened last. */

import type { RunEvent } from "@/lib/events";

import type { Line } from "./view";

/** So many of them are kept. */
export const KEPT = 12;

const ROUNDS: Record<string, string> = {
  critic_responded: "the critic has spoken",
  dm_responded: "the decision makers have answered",
};

/** What happened, or nothing if it is only the beginning of something. */
export function inWords(event: RunEvent): Line | null {
  const line = (move: string | null, text: string): Line => ({ seq: event.seq, move, text });
  switch (event.type) {
    case "agent_complete":
      return line(null, `${event.agent_id.replaceAll("_", " ")} wrote ${event.outputs.join(", ")}`);
    case "agent_failed":
      return line(null, `${event.agent_id.replaceAll("_", " ")} failed`);
    case "sandbox_ready":
      return line(event.move, `its debate begins in ${event.backend}`);
    case "sandbox_round":
      return ROUNDS[event.status] ? line(event.move, `round ${event.round}: ${ROUNDS[event.status]}`) : null;
    case "sandbox_scored":
      return line(event.move, `scored ${event.score} points`);
    case "sandbox_skipped":
      return line(event.move, "has no score");
    case "pipeline_complete":
      return line(null, `recommended: ${event.recommended.join(", ")}`);
    default:
      return null;
  }
}
