import { Ban, FileDown, GitCompareArrows, GitFork, Play } from "lucide-react";
import type { ReactElement } from "react";

import { when } from "@/lib/format";
import { type Report, isOpen } from "@/lib/report";
import { isLive } from "@/lib/status";
import type { Run } from "@/lib/types";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Link } from "@/ui/link";
import { RunBadge } from "@/ui/status";

interface Props {
  run: Run;
  report: Report | null;
  synthetic: boolean;
  onCancel: () => void;
  /** Null while the run cannot be forked. */
  onFork: (() => void) | null;
  onResume: () => void;
  onCompare: () => void;
  onFiles: () => void;
}

/** Header of a run: identity, status and actions. */
export function RunHeader({ run, report, synthetic, ...act }: Props): ReactElement {
  const live = isLive(run.status);
  const stopped = run.status === "error" || run.status === "cancelled";
  const resumable = stopped || (run.status === "complete" && report !== null && isOpen(report));
  const invented = report ? report.outcome.company.source === "synthetic" : synthetic;
  return (
    <header className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
      <div className="min-w-0">
        <div className="flex flex-wrap items-center gap-2.5">
          <h1 className="text-2xl font-semibold tracking-tight">{run.ticker}</h1>
          <RunBadge status={run.status} />
          {invented && <Badge tone="warn">Synthetic data</Badge>}
          {run.settings.provider === "scripted" && <Badge tone="warn">Scripted model</Badge>}
        </div>
        <p className="mt-1 flex flex-wrap gap-x-2 text-[13px] text-dim">
          {report && <span>{report.outcome.company.name} ·</span>}
          <span className="font-mono">{run.id}</span>
          <span>· {when(run.created_at)}</span>
          {run.settings.provider !== "scripted" && <span>· {run.settings.model ?? run.settings.provider}</span>}
          {run.branch && (
            <span>
              · forked from{" "}
              <Link href={`/runs/${run.branch.from}`} className="text-accent underline underline-offset-2">
                {run.branch.from}
              </Link>{" "}
              at <span className="font-mono">{run.branch.at}</span>
            </span>
          )}
        </p>
      </div>
      <div className="flex flex-wrap gap-2">
        {live && (
          <Button look="danger" onClick={act.onCancel}>
            <Ban aria-hidden /> Cancel
          </Button>
        )}
        {resumable && (
          <Button look={stopped ? "solid" : undefined} onClick={act.onResume}>
            <Play aria-hidden /> Resume
          </Button>
        )}
        {act.onFork && (
          <Button onClick={act.onFork}>
            <GitFork aria-hidden /> Fork
          </Button>
        )}
        {run.status === "complete" && (
          <Button onClick={act.onCompare}>
            <GitCompareArrows aria-hidden /> Compare
          </Button>
        )}
        {!live && (
          <Button onClick={act.onFiles}>
            <FileDown aria-hidden /> Downloads
          </Button>
        )}
      </div>
    </header>
  );
}
