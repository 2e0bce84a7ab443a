/** A finished run's result, and the findings as soon as their documents are there. */

import { useEffect, useMemo, useState } from "react";

import { ApiError, api } from "@/lib/api";
import type { Finding, Report } from "@/lib/report";
import type { RunStatus } from "@/lib/types";
import { type Findings, byId, findingsOf, readFindings } from "@/text/findings";

export function useResult(
  id: string,
  status: RunStatus | undefined,
): { report: Report | null; error: ApiError | null } {
  const [report, setReport] = useState<Report | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    if (status !== "complete") return;
    const stop = new AbortController();
    api.result(id, stop.signal).then(
      (it) => setReport(it.result),
      (cause: unknown) => {
        if (!stop.signal.aborted && cause instanceof ApiError) setError(cause);
      },
    );
    return () => stop.abort();
  }, [id, status]);
  return { report, error };
}

/** Findings from the report, or before there is one from the documents of a layer that is done. */
export function useFindings(id: string, report: Report | null, written: boolean): Findings {
  const [early, setEarly] = useState<Finding[]>([]);
  useEffect(() => {
    if (report || !written) return;
    const stop = new AbortController();
    const read = (name: string): Promise<Finding[]> =>
      api.fileIfThere(id, name, stop.signal).then(
        (it) => (it === null ? [] : readFindings(it)),
        () => [],
      );
    void Promise.all([read("F1.md"), read("F2.md")]).then((it) => {
      if (!stop.signal.aborted) setEarly(it.flat());
    });
    return () => stop.abort();
  }, [id, report, written]);
  return useMemo(() => (report ? findingsOf(report) : byId(early)), [report, early]);
}
