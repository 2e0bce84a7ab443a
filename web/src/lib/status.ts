/** Groups of run statuses. */

import type { RunStatus } from "./types";

/** Returns whether the run is running or queued. */
export const isLive = (status: RunStatus | undefined): boolean => status === "running" || status === "queued";
