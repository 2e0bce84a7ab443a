/** Hooks for the files, findings and results of a run. */

import { useMemo } from "react";

import { api } from "@/lib/api";
import type { Report, ResultAnswer } from "@/lib/report";
import type { Run, RunStatus } from "@/lib/types";
import { type Fetched, useFetched } from "@/lib/use-fetched";
import { type Findings, byId, findingsOf, readFindings } from "@/text/findings";

import type { RunView } from "./view";

/** Loads the results of a completed run, and reloads them after it was resumed. */
export function useResult(id: string, run: Run | null): Fetched<ResultAnswer> {
  const key = run?.status === "complete" ? id : null;
  return useFetched(key, (signal) => api.result(id, signal), run?.updated_at);
}

const NONE: string[] = [];

/** Returns the names of the existing files; reloads them when a layer completes or a debate starts. */
export function useFiles(id: string, status: RunStatus | undefined, view: RunView): string[] {
  const done = Object.values(view.layers).filter((it) => it.status === "done").length;
  const begun = Object.keys(view.debates).length;
  const { value } = useFetched(id, (signal) => api.files(id, signal), `${done} ${begun} ${status}`);
  return useMemo(() => value?.files.map((it) => it.name) ?? NONE, [value]);
}

const FINDINGS = ["F1.md", "F2.md"];

/**
 * Returns the findings from the report or, before it exists, from the documents F1 and F2. Waits for both, because
 * otherwise citations of the missing one would look invalid.
 */
export function useFindings(id: string, report: Report | null, files: readonly string[]): Findings {
  const wanted = report === null && FINDINGS.every((it) => files.includes(it));
  const { value: texts } = useFetched(wanted ? id : null, (signal) =>
    Promise.all(FINDINGS.map((it) => api.file(id, it, signal))),
  );
  return useMemo(
    () => (report ? findingsOf(report) : byId((texts ?? []).flatMap((it) => readFindings(it)))),
    [report, texts],
  );
}
