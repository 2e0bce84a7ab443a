/** Folds the events of a job into its attempts. */

export interface Critique {
  diagnosis: string;
  fix_suggestion: string;
  confidence: number;
}

export interface Execution {
  status: string;
  exit_code: number | null;
  stdout: string;
  stderr: string;
  duration_ms: number;
  isolation?: string;
}

export interface Attempt {
  number: number;
  /** Whether the program was written from scratch because the attempts before it failed in the same way. */
  resampled: boolean;
  step: "writing" | "running" | "critique" | "ended";
  code: string | null;
  dependencies: string[];
  reasoning: string;
  execution: Execution | null;
  /** Class and message of the failure. */
  failure: { class: string; error: string } | null;
  critique: Critique | null;
}

export interface JobProgress {
  /** Number of the last applied event. */
  last: number;
  model: string | null;
  attempts: Attempt[];
  outcome: { success: boolean; attempts: number; message: string } | null;
}

export type JobEvent = { seq: number } & (
  | { type: "started"; task: string; model: string }
  | { type: "generating"; attempt: number; resampled: boolean }
  | { type: "code"; attempt: number; code: string; dependencies: string[]; reasoning: string; confidence: number }
  | { type: "executing"; attempt: number }
  | ({ type: "execution_result"; attempt: number } & Execution)
  | { type: "critiquing"; attempt: number; class: string; error: string }
  | ({ type: "critique"; attempt: number } & Critique)
  | { type: "retrying"; attempt: number }
  | { type: "complete"; success: boolean; attempts: number; message: string }
  | { type: "error"; message: string }
);

export const NO_PROGRESS: JobProgress = { last: 0, model: null, attempts: [], outcome: null };

const emptyAttempt = (number: number): Attempt => ({
  number,
  resampled: false,
  step: "writing",
  code: null,
  dependencies: [],
  reasoning: "",
  execution: null,
  failure: null,
  critique: null,
});

/** Applies an event. An event that was applied before is ignored. */
export function applyEvent(job: JobProgress, event: JobEvent): JobProgress {
  if (event.seq <= job.last) return job;
  const next = { ...job, last: event.seq };
  const change = (number: number, it: Partial<Attempt>): JobProgress => {
    const old = job.attempts.find((one) => one.number === number) ?? emptyAttempt(number);
    const others = job.attempts.filter((one) => one.number !== number);
    return { ...next, attempts: [...others, { ...old, ...it }].toSorted((a, b) => a.number - b.number) };
  };
  switch (event.type) {
    case "started":
      return { ...next, model: event.model };
    case "generating":
      return change(event.attempt, { step: "writing", resampled: event.resampled });
    case "code": {
      const { code, dependencies, reasoning } = event;
      return change(event.attempt, { code, dependencies, reasoning });
    }
    case "executing":
      return change(event.attempt, { step: "running" });
    case "execution_result": {
      const { status, exit_code, stdout, stderr, duration_ms, isolation } = event;
      const execution = { status, exit_code, stdout, stderr, duration_ms, isolation };
      return change(event.attempt, { step: "ended", execution });
    }
    case "critiquing":
      return change(event.attempt, { step: "critique", failure: { class: event.class, error: event.error } });
    case "critique": {
      const { diagnosis, fix_suggestion, confidence } = event;
      return change(event.attempt, { step: "ended", critique: { diagnosis, fix_suggestion, confidence } });
    }
    case "complete":
      return { ...next, outcome: { success: event.success, attempts: event.attempts, message: event.message } };
    default:
      return next;
  }
}
