import { type ReactElement, useEffect } from "react";

import { count } from "@/lib/format";
import { useFetched } from "@/lib/use-fetched";
import { Badge } from "@/ui/badge";
import { Link } from "@/ui/link";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";
import { RunBadge } from "@/ui/status";

import { type JobListItem, api } from "./api";
import { JobForm } from "./job-form";
import { Pool } from "./pool";
import { useClock } from "./use-clock";

/** Form for a new job, gauges of the sandbox pool, and all jobs. */
export function HomePage(): ReactElement {
  useEffect(() => {
    document.title = "Agent sandbox";
  }, []);
  const tick = useClock(3000);
  const health = useFetched("health", api.health, tick);
  const stats = useFetched("stats", api.stats, tick);
  const jobs = useFetched("jobs", api.jobs, tick);
  return (
    <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-2">
      <div className="space-y-5">
        <div>
          <h1 className="text-2xl font-semibold tracking-tight">Programs that test themselves</h1>
          <p className="mt-1.5 max-w-prose text-dim">
            A model writes a program for your task, a sandbox runs it, and a critic explains failures until it works.
          </p>
          {health.value && (
            <p className="mt-2 flex flex-wrap gap-1.5">
              <Badge tone={health.value.provider === "scripted" ? "warn" : "plain"}>
                {health.value.provider === "scripted" ? "Scripted model" : `Model: ${health.value.provider}`}
              </Badge>
              <Badge tone={health.value.isolation === "off" ? "warn" : "good"}>
                {health.value.sandbox}, isolation: {health.value.isolation}
              </Badge>
              {!health.value.memory_bounded && <Badge tone="warn">Memory is not bounded by a kernel</Badge>}
              {health.value.status !== "ok" && <Badge tone="bad">The queue is full</Badge>}
            </p>
          )}
        </div>
        <JobForm />
        {stats.error !== null && <Problem title="Could not load the statistics" error={stats.error} />}
        {stats.value && <Pool stats={stats.value} />}
      </div>
      <Panel id="jobs" title="Jobs" inner="p-0">
        {jobs.error !== null && (
          <div className="p-4">
            <Problem title="Could not load the jobs" error={jobs.error} />
          </div>
        )}
        {jobs.value?.length === 0 && (
          <p className="px-4 py-8 text-center text-sm text-dim">No jobs yet. Describe a task to start one.</p>
        )}
        <ul className="divide-y divide-line">
          {jobs.value?.map((it) => (
            <li key={it.job_id}>
              <Link
                href={`/?job=${encodeURIComponent(it.job_id)}`}
                className="block px-4 py-2.5 -outline-offset-2 hover:bg-sunk"
              >
                <span className="flex flex-wrap items-center gap-2">
                  <JobBadge job={it} />
                  <span className="ml-auto text-xs text-dim">{summary(it)}</span>
                </span>
                <span className="mt-0.5 line-clamp-2 text-sm">{it.task}</span>
              </Link>
            </li>
          ))}
        </ul>
      </Panel>
    </div>
  );
}

function JobBadge({ job }: { job: JobListItem }): ReactElement {
  if (job.status !== "complete" || !job.outcome) return <RunBadge status={job.status} />;
  return <Badge tone={job.outcome.success ? "good" : "bad"}>{job.outcome.success ? "Solved" : "Not solved"}</Badge>;
}

function summary({ outcome }: JobListItem): string {
  if (!outcome) return "";
  return `${outcome.attempts} ${outcome.attempts === 1 ? "attempt" : "attempts"} · ${count(outcome.tokens)} tokens`;
}
