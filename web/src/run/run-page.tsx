import { ArrowRight } from "lucide-react";
import { type ReactElement, type ReactNode, useEffect, useState } from "react";

import { DebateView } from "@/debate/debate-view";
import { movesOf } from "@/graph/live";
import { api } from "@/lib/api";
import { navigate, usePageLocation, withQuery } from "@/lib/router";
import { isSynthetic } from "@/lib/data-source";
import { isLive } from "@/lib/status";
import type { Setup } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { CompareDialog } from "@/actions/compare-dialog";
import { FilesDialog } from "@/actions/files-dialog";
import { ForkDialog } from "@/actions/fork-dialog";
import { ResumeDialog } from "@/actions/resume-dialog";
import { Review } from "@/actions/review";
import { Results } from "@/results/results";
import { Documents, readable } from "@/results/documents";
import { FindingsContext } from "@/text/citation";
import { Button } from "@/ui/button";
import { Link } from "@/ui/link";
import { Problem } from "@/ui/problem";
import { type Tab, Tabs } from "@/ui/tabs";

import { Announcer } from "./announcer";
import { Meters } from "./meters";
import { Notices } from "./notices";
import { PipelineTab } from "./pipeline-tab";
import { RunHeader } from "./run-header";
import { TimelineTab } from "./timeline-tab";
import { titleOf } from "./titles";
import { useFiles, useFindings, useResult } from "./use-result";
import { useRun } from "./use-run";

type Open = null | { kind: "fork"; at: string } | { kind: "compare" | "files" | "resume" };

/** Page of one run. */
export function RunPage({ id, setup }: { id: string; setup: Setup }): ReactElement {
  const place = usePageLocation();
  const { run, view, connected, error, refused, samples, refresh } = useRun(id);
  const result = useResult(id, run);
  const report = result.value?.result ?? null;
  const files = useFiles(id, run?.status, view);
  const findings = useFindings(id, report, files);
  const drawings = useFetched("graph", api.graph);
  const [open, setOpen] = useState<Open>(null);
  /** View that is shown unless the URL names one. */
  const [landing, setLanding] = useState<string | null>(null);
  /** Whether the run was active while this page was open. */
  const [wasLive, setWasLive] = useState(false);
  const [undone, setUndone] = useState<unknown>(null);
  useEffect(() => {
    document.title = run ? `${run.ticker} ${run.status} · Consulting` : "Consulting";
  }, [run]);

  if (error && !run) {
    return (
      <Problem whole title={error.status === 404 ? "Run not found" : "Could not load the run"} error={error}>
        <p className="mt-2">
          <Link href="/" className="underline underline-offset-2">
            All runs
          </Link>
        </p>
      </Problem>
    );
  }
  if (!run) return <p className="py-16 text-center text-dim">Loading the run…</p>;

  const moves = movesOf(run.config, view);
  const live = isLive(run.status);
  const tabs: Tab[] = [
    ...(run.status === "complete" ? [{ id: "results", title: "Results" }] : []),
    ...(run.status === "waiting" ? [{ id: "review", title: "Review" }] : []),
    { id: "pipeline", title: "Pipeline" },
    { id: "debates", title: "Debates" },
    { id: "timeline", title: "Timeline" },
    ...(files.some(readable) ? [{ id: "documents", title: "Documents" }] : []),
  ];
  const asked = place.query.get("view");
  // The view never changes by itself: a tab that appears later is offered by a button.
  if (landing === null) setLanding(tabs[0]!.id);
  else if (!tabs.some((it) => it.id === landing)) setLanding("pipeline");
  if (live && !wasLive) setWasLive(true);
  const current = tabs.find((it) => it.id === asked)?.id ?? landing ?? tabs[0]!.id;
  const move = place.query.get("move") ?? firstDebate(moves, view.debates);
  const show = (change: Record<string, string | null>): void => navigate(withQuery(place, change));
  const openDebate = (it: string): void => show({ view: "debates", move: it });
  const cancel = (): void => {
    setUndone(null);
    void api.cancel(id).then(refresh, setUndone);
  };
  // Only a run that is not active can be forked.
  const fork = live ? null : (at: string): void => setOpen({ kind: "fork", at });

  return (
    <FindingsContext value={findings}>
      <div className="space-y-4">
        <RunHeader
          run={run}
          report={report}
          synthetic={isSynthetic(setup, run.ticker)}
          onCancel={cancel}
          onFork={fork && (() => fork("layer_2"))}
          onResume={() => setOpen({ kind: "resume" })}
          onCompare={() => setOpen({ kind: "compare" })}
          onFiles={() => setOpen({ kind: "files" })}
        />
        <Announcer run={run} view={view} moves={moves.length} />
        <Notices run={run} view={view} connected={connected} />
        {refused && (
          <Problem title="Could not follow the events of the run" error={refused}>
            <Button className="mt-3" onClick={refresh}>
              Try again
            </Button>
          </Problem>
        )}
        {Object.entries({
          "Could not load the status of the run": error,
          "Could not cancel the run": undone,
          "Could not load the results": result.error,
          "Could not load the pipeline graph": drawings.error,
        }).map(([title, it]) => it !== null && <Problem key={title} title={title} error={it} />)}
        <Meters run={run} samples={samples} />
        <Tabs
          tabs={tabs}
          current={current}
          label="Views of the run"
          onPick={(it) => show({ view: it, move: null, at: null, file: null })}
        >
          {current === "results" && <Results run={run} report={report} onDebate={openDebate} />}
          {current === "review" && <Review run={run} onDone={refresh} />}
          {current === "pipeline" && (
            <>
              {run.status === "complete" && !wasLive && (
                <Button look="solid" className="mb-4" onClick={() => show({ view: "results" })}>
                  The run is complete: view the results <ArrowRight aria-hidden />
                </Button>
              )}
              <PipelineTab
                run={run}
                view={view}
                moves={moves}
                drawings={drawings.value}
                files={files}
                selected={place.query.get("at")}
                onSelect={(it) => show({ view: "pipeline", at: it })}
                onDebate={openDebate}
              />
            </>
          )}
          {current === "debates" && (
            <DebateView
              run={run}
              view={view}
              report={report}
              drawing={drawings.value?.debate ?? null}
              moves={moves}
              move={move}
              onMove={openDebate}
              onBack={() => show({ view: "pipeline", move: null })}
              onFork={fork}
            />
          )}
          {current === "timeline" && (
            <TimelineTab
              run={run}
              view={view}
              moves={moves}
              report={report}
              onAgent={(at) => show({ view: "pipeline", at })}
              onDebate={openDebate}
            />
          )}
          {current === "documents" && (
            <Documents
              id={id}
              files={files}
              titles={Object.fromEntries(moves.map((it) => [it, titleOf(it, run, view)]))}
              file={place.query.get("file")}
              onFile={(file) => show({ file })}
            />
          )}
        </Tabs>
      </div>
      {wasLive && run.status === "complete" && current !== "results" && (
        <Next onClick={() => show({ view: "results", move: null, at: null })}>
          The run is complete: view the results
        </Next>
      )}
      {wasLive && run.status === "waiting" && current !== "review" && (
        <Next onClick={() => show({ view: "review", move: null, at: null })}>Review the proposed moves</Next>
      )}
      {open?.kind === "fork" && (
        <ForkDialog run={run} report={report} at={open.at} moves={moves} onClose={() => setOpen(null)} />
      )}
      {open?.kind === "compare" && <CompareDialog run={run} onClose={() => setOpen(null)} />}
      {open?.kind === "files" && <FilesDialog run={run} onClose={() => setOpen(null)} />}
      {open?.kind === "resume" && <ResumeDialog run={run} onClose={() => setOpen(null)} onDone={refresh} />}
    </FindingsContext>
  );
}

/** A button above the page, so that its appearance does not move the content. */
function Next({ onClick, children }: { onClick: () => void; children: ReactNode }): ReactElement {
  return (
    <div className="pointer-events-none fixed inset-x-0 bottom-4 z-20 flex justify-center px-4">
      <Button look="solid" size="md" className="pointer-events-auto shadow-lg" onClick={onClick}>
        {children} <ArrowRight aria-hidden />
      </Button>
    </div>
  );
}

function firstDebate(moves: string[], debates: Record<string, unknown>): string {
  return moves.find((it) => it in debates) ?? moves[0] ?? "m1";
}
