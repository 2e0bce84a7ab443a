import { Play } from "lucide-react";
import { type FormEvent, type ReactElement, useState } from "react";

import { useAction } from "@/actions/use-action";
import { navigate } from "@/lib/router";
import { Button } from "@/ui/button";
import { Area, Field } from "@/ui/field";
import { Problem } from "@/ui/problem";

import { api } from "./api";

const EXAMPLES = ["Calculate the 10th Fibonacci number", "Read data from users.json and print usernames"];

/** Form for a new job. */
export function JobForm(): ReactElement {
  const [task, setTask] = useState("");
  const [tests, setTests] = useState("");
  const [expect, setExpect] = useState("");
  const [attempts, setAttempts] = useState("");
  const { busy, error, run: act } = useAction();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    act(async () => {
      const { job_id } = await api.execute({
        task,
        ...(tests.trim() !== "" && { tests }),
        ...(expect.trim() !== "" && { expect }),
        ...(attempts !== "" && { max_attempts: Number(attempts) }),
      });
      navigate(`/?job=${encodeURIComponent(job_id)}`);
    });
  };
  return (
    <form
      aria-label="New job"
      onSubmit={submit}
      className="space-y-3 rounded-xl border border-line bg-panel p-4 shadow-(--shadow)"
    >
      <Area
        label="Task"
        rows={3}
        required
        placeholder="What should the program do?"
        value={task}
        onChange={(event) => setTask(event.target.value)}
      />
      <p className="flex flex-wrap items-center gap-2 text-[13px] text-dim">
        Examples:
        {EXAMPLES.map((it) => (
          <Button
            key={it}
            className="h-auto max-w-full shrink py-1 text-left whitespace-normal"
            onClick={() => setTask(it)}
          >
            {it}
          </Button>
        ))}
      </p>
      <details>
        <summary className="text-sm font-medium text-accent">Checks and limits</summary>
        <div className="mt-3 space-y-3">
          <Area
            label="Tests"
            hint="Assertions that run after the program and can use its names."
            rows={2}
            spellCheck={false}
            value={tests}
            onChange={(event) => setTests(event.target.value)}
          />
          <Area
            label="Expected output"
            rows={2}
            spellCheck={false}
            value={expect}
            onChange={(event) => setExpect(event.target.value)}
          />
          <Field
            label="Attempts"
            type="number"
            min={1}
            max={10}
            placeholder="default of the server"
            value={attempts}
            onChange={(event) => setAttempts(event.target.value)}
          />
        </div>
      </details>
      {error !== null && <Problem title="Could not start the job" error={error} />}
      <div className="flex justify-end">
        <Button type="submit" look="solid" size="md" disabled={busy || task.trim() === ""}>
          <Play aria-hidden /> {busy ? "Starting…" : "Run"}
        </Button>
      </div>
    </form>
  );
}
