/** How a run stands, in groups. */

import type { RunStatus } from "./types";

/** Whether the run works or is about to. */
export const isLive = (status: RunStatus | undefined): boolean => status === "running" || status === "queued";
