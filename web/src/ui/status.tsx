import { Ban, Check, CircleDashed, Clock, Hand, LoaderCircle, TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import type { RunStatus } from "@/lib/types";
import type { Status } from "@/run/view";

import { Badge, type Tone } from "./badge";

const RUN: Record<RunStatus, { tone: Tone; text: string; icon: typeof Check }> = {
  queued: { tone: "plain", text: "Queued", icon: Clock },
  running: { tone: "accent", text: "Running", icon: LoaderCircle },
  waiting: { tone: "warn", text: "Waiting for review", icon: Hand },
  complete: { tone: "good", text: "Complete", icon: Check },
  error: { tone: "bad", text: "Failed", icon: TriangleAlert },
  cancelled: { tone: "plain", text: "Cancelled", icon: Ban },
};

export function RunBadge({ status }: { status: RunStatus }): ReactElement {
  const { tone, text, icon: Icon } = RUN[status] ?? { tone: "plain", text: status, icon: Clock };
  return (
    <Badge tone={tone} data-status={status}>
      <Icon aria-hidden className={status === "running" ? "animate-spin" : undefined} /> {text}
    </Badge>
  );
}

const WORK: Record<Status, { className: string; icon: typeof Check }> = {
  idle: { className: "text-dim", icon: CircleDashed },
  running: { className: "text-accent animate-spin", icon: LoaderCircle },
  done: { className: "text-good", icon: Check },
  failed: { className: "text-bad", icon: TriangleAlert },
};

export const STATUS_WORDS: Record<Status, string> = {
  idle: "idle",
  running: "running",
  done: "done",
  failed: "failed",
};

/** Icon for the status of a layer, agent or debate. The status is announced in text elsewhere. */
export function WorkIcon({ status, size = 14 }: { status: Status; size?: number }): ReactElement {
  const { className, icon: Icon } = WORK[status];
  return <Icon aria-hidden size={size} className={`shrink-0 ${className}`} />;
}
