/** What a run has to be read: its files as they come, the findings in them, and at its end the result. */

import { useMemo } from "react";

import { api } from "@/lib/api";
import type { Report, ResultAnswer } from "@/lib/report";
import type { Run, RunStatus } from "@/lib/types";
import { type Fetched, useFetched } from "@/lib/use-fetched";
import { type Findings, byId, findingsOf, readFindings } from "@/text/findings";

import type { RunView } from "./view";

/** A complete run that went on comes to another result, though nobody may have looked in between. */
export function useResult(id: string, run: Run | null): Fetched<ResultAnswer> {
  const key = run?.status === "complete" ? id : null;
  return useFetched(key, (signal) => api.result(id, signal), run?.updated_at);
}

const NONE: string[] = [];

/** The names of the files that are there so far. Files come with a layer's end, so each of them asks again. */
export function useFiles(id: string, status: RunStatus | undefined, view: RunView): string[] {
  const done = Object.values(view.layers).filter((it) => it.status === "done").length;
  const begun = Object.keys(view.debates).length;
  const { value } = useFetched(id, (signal) => api.files(id, signal), `${done} ${begun} ${status}`);
  return useMemo(() => value?.files.map((it) => it.name) ?? NONE, [value]);
}

const FINDINGS = ["F1.md", "F2.md"];

/**
 * Findings from the report, or before there is one from the documents of findings. With only one of these a citation
 * of the other would look wrong, so both are waited for.
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
