import { ArrowLeft, Ban, CloudOff, Play } from "lucide-react";
import { type ReactElement, useEffect, useState } from "react";

import { useAction } from "@/actions/use-action";
import { count } from "@/lib/format";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Link } from "@/ui/link";
import { Problem } from "@/ui/problem";
import { RunBadge } from "@/ui/status";

import { type Job, api, isActive } from "./api";
import { AttemptView } from "./attempt-view";
import type { JobProgress } from "./attempts";
import { useJob } from "./use-job";

/** A job: its task, its attempts and its outcome. */
export function JobPage({ id }: { id: string }): ReactElement {
  const [version, setVersion] = useState(0);
  const { job, progress, error, connected } = useJob(id, version);
  const acting = useAction();
  useEffect(() => {
    document.title = job ? `${job.status} · Agent sandbox` : "Agent sandbox";
  }, [job]);
  if (error !== null && !job) {
    return (
      <Problem whole title="Could not load the job" error={error}>
        <p className="mt-2">
          <Link href="/" className="underline underline-offset-2">
            All jobs
          </Link>
        </p>
      </Problem>
    );
  }
  if (!job) return <p className="py-16 text-center text-dim">Loading the job…</p>;
  const active = isActive(job.status);
  const stopped = job.status === "error" || job.status === "cancelled";
  return (
    <div className="space-y-4">
      <Link href="/" className="inline-flex items-center gap-1.5 text-sm text-accent">
        <ArrowLeft aria-hidden className="size-4" /> All jobs
      </Link>
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0 flex-1 basis-80">
          <h1 className="text-xl leading-snug font-semibold whitespace-pre-wrap">{job.task}</h1>
          <p className="mt-1.5 flex flex-wrap items-center gap-2 text-[13px] text-dim">
            <RunBadge status={job.status} />
            <span className="font-mono">{job.job_id}</span>
            {progress.model && <span>· {progress.model}</span>}
            <Totals job={job} />
          </p>
        </div>
        {active && (
          <Button look="danger" disabled={acting.busy} onClick={() => acting.run(() => api.cancel(id))}>
            <Ban aria-hidden /> Cancel
          </Button>
        )}
        {stopped && (
          <Button
            look="solid"
            disabled={acting.busy}
            onClick={() => acting.run(() => api.resume(id).then(() => setVersion((it) => it + 1)))}
          >
            <Play aria-hidden /> Resume
          </Button>
        )}
      </header>
      {!connected && (
        <p role="status" className="flex items-center gap-2 rounded-lg bg-warn-soft px-4 py-2.5 text-sm text-warn">
          <CloudOff aria-hidden className="size-4 shrink-0" /> Connection lost, reconnecting. The job continues.
        </p>
      )}
      {error !== null && <Problem title="The page no longer follows the job" error={error} />}
      {acting.error !== null && <Problem title="The server refused the action" error={acting.error} />}
      {job.error && <Problem title="The job stopped" error={job.error} />}
      <Outcome progress={progress} />
      <ol className="space-y-4">
        {progress.attempts.map((it, idx) => (
          <li key={it.number}>
            <AttemptView attempt={it} before={progress.attempts[idx - 1]?.code ?? null} active={active} />
          </li>
        ))}
      </ol>
      {active && progress.attempts.length === 0 && (
        <p className="py-10 text-center text-sm text-dim">The job is waiting for its first attempt.</p>
      )}
    </div>
  );
}

function Totals({ job: { result } }: { job: Job }): ReactElement | null {
  if (!result?.calls) return null;
  const tokens = result.calls.reduce((sum, it) => sum + it.input + it.output, 0);
  return (
    <span>
      · {count(result.calls.length)} calls, {count(tokens)} tokens
    </span>
  );
}

function Outcome({ progress: { outcome } }: { progress: JobProgress }): ReactElement | null {
  if (!outcome) return null;
  return (
    <p
      role="status"
      className={
        outcome.success
          ? "flex flex-wrap items-center gap-2 rounded-lg bg-good-soft px-4 py-2.5 text-sm"
          : "flex flex-wrap items-center gap-2 rounded-lg bg-bad-soft px-4 py-2.5 text-sm"
      }
    >
      <Badge tone={outcome.success ? "good" : "bad"} className="bg-panel">
        {outcome.success ? "Solved" : "Not solved"}
      </Badge>
      {outcome.message}
    </p>
  );
}
