/** Describes events for the list of recent events. */

import type { RunEvent } from "@/lib/events";

import type { Line } from "./view";

/** Maximum number of lines. */
export const MAX_LINES = 12;

const ROUNDS: Record<string, string> = {
  critic_responded: "the critic has replied",
  dm_responded: "the decision makers have answered",
};

/** Returns a description of the event, or null if it is not worth a line. */
export function describeEvent(event: RunEvent): Line | null {
  const line = (move: string | null, text: string): Line => ({ seq: event.seq, move, text });
  switch (event.type) {
    case "agent_complete":
      return line(null, `${event.agent_id.replaceAll("_", " ")} wrote ${event.outputs.join(", ")}`);
    case "agent_failed":
      return line(null, `${event.agent_id.replaceAll("_", " ")} failed`);
    case "sandbox_ready":
      return line(event.move, `debate started in ${event.backend}`);
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
