import { expect, test } from "vitest";

import { type JobEvent, NO_PROGRESS, applyEvent } from "./attempts";

const events: JobEvent[] = [
  { seq: 1, type: "started", task: "t", model: "scripted/coder" },
  { seq: 2, type: "generating", attempt: 1, resampled: false },
  { seq: 3, type: "code", attempt: 1, code: "a", dependencies: [], reasoning: "r", confidence: 1 },
  { seq: 4, type: "executing", attempt: 1 },
  {
    seq: 5,
    type: "execution_result",
    attempt: 1,
    status: "error",
    exit_code: 1,
    stdout: "",
    stderr: "no",
    duration_ms: 3,
  },
  { seq: 6, type: "critiquing", attempt: 1, class: "file", error: "no" },
  { seq: 7, type: "critique", attempt: 1, diagnosis: "d", fix_suggestion: "f", confidence: 0.5 },
  { seq: 8, type: "retrying", attempt: 2 },
  { seq: 9, type: "generating", attempt: 2, resampled: true },
];

test("events become attempts, and repeated events change nothing", () => {
  const job = [...events, ...events].reduce(applyEvent, NO_PROGRESS);
  expect(job.model).toBe("scripted/coder");
  expect(job.attempts).toMatchObject([
    { number: 1, step: "ended", code: "a", failure: { class: "file" }, critique: { diagnosis: "d" } },
    { number: 2, step: "writing", code: null, resampled: true },
  ]);
});

test("the outcome ends the job", () => {
  const job = applyEvent(NO_PROGRESS, { seq: 1, type: "complete", success: true, attempts: 2, message: "done" });
  expect(job.outcome).toEqual({ success: true, attempts: 2, message: "done" });
});
