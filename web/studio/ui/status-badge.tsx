import { Ban, Check, Clock, Hand, LoaderCircle, TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import { Badge, type Tone } from "@/ui/badge";
import type { RunStatus, ThreadStatus } from "@studio/api/types";

const LOOKS: Record<RunStatus | ThreadStatus, { tone: Tone; text: string; icon: typeof Check }> = {
  idle: { tone: "plain", text: "Idle", icon: Check },
  busy: { tone: "accent", text: "Running", icon: LoaderCircle },
  interrupted: { tone: "warn", text: "Interrupted", icon: Hand },
  error: { tone: "bad", text: "Failed", icon: TriangleAlert },
  pending: { tone: "plain", text: "Queued", icon: Clock },
  running: { tone: "accent", text: "Running", icon: LoaderCircle },
  success: { tone: "good", text: "Complete", icon: Check },
  timeout: { tone: "bad", text: "Timed out", icon: Ban },
};

/** Status of a run or thread. */
export function StatusBadge({ status }: { status: RunStatus | ThreadStatus }): ReactElement {
  const { tone, text, icon: Icon } = LOOKS[status] ?? { tone: "plain", text: status, icon: Clock };
  const spins = status === "running" || status === "busy";
  return (
    <Badge tone={tone} data-status={status}>
      <Icon aria-hidden className={spins ? "animate-spin" : undefined} /> {text}
    </Badge>
  );
}
