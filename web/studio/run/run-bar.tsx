import { CircleStop, Play, WifiOff } from "lucide-react";
import type { ReactElement } from "react";

import { useAction } from "@/actions/use-action";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import { api } from "@studio/api/client";
import type { RunRequest } from "@studio/api/types";
import { StatusBadge } from "@studio/ui/status-badge";

import { isPaused } from "./interrupts";
import type { ThreadView } from "./use-thread";

interface Props {
  view: ThreadView | null;
  connected: boolean;
  isBusy: boolean;
  /** Whether the newest checkpoint is selected. */
  isHead: boolean;
  onChanged: () => void;
  onStart: (request: Omit<RunRequest, "assistant_id">) => Promise<void>;
}

/** Status of the thread, and the actions on its run: cancel, and continue after a breakpoint or failure. */
export function RunBar({ view, connected, isBusy, isHead, onChanged, onStart }: Props): ReactElement {
  const { busy, error, run } = useAction();
  if (!view) return <span className="text-[13px] text-dim">New thread</span>;
  const { active, thread, head } = view;
  const failure = view.live?.error ?? thread.error;
  return (
    <>
      {!connected && (
        <Badge tone="warn" role="status">
          <WifiOff aria-hidden /> Reconnecting
        </Badge>
      )}
      <span role="status">
        <StatusBadge status={active?.status ?? thread.status} />
      </span>
      {active && (
        <Button
          disabled={busy}
          onClick={() => run(() => api.cancelRun(active.thread_id, active.run_id).finally(onChanged))}
        >
          <CircleStop aria-hidden /> Cancel
        </Button>
      )}
      {!active && isHead && head && isPaused(head) && (
        <Button look="solid" disabled={busy || isBusy} onClick={() => run(() => onStart({ input: null }))}>
          <Play aria-hidden /> {thread.status === "error" ? "Try again" : "Continue"}
        </Button>
      )}
      {!active && thread.status === "error" && failure && (
        <p role="alert" className="w-full text-right text-[13px] text-bad">
          {failure.error}: {failure.message}
        </p>
      )}
      {error !== null && <Problem title="The action failed" error={error} />}
    </>
  );
}
