import { Hand } from "lucide-react";
import { type FormEvent, type ReactElement, useState } from "react";

import { useAction } from "@/actions/use-action";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import type { Json } from "@studio/api/types";
import type { Checkpoint } from "@studio/history/checkpoint";

import { AnswerField } from "./answer-field";
import { type Answer, answersOf, pendingInterrupts } from "./interrupts";

/** The questions of the pending nodes, with a form for the answers. */
export function InterruptPanel({
  head,
  onResume,
}: {
  head: Checkpoint | null;
  onResume: (answer: Json) => Promise<void>;
}): ReactElement | null {
  const interrupts = pendingInterrupts(head);
  const [drafts, setDrafts] = useState<Record<string, Answer>>({});
  const [problem, setProblem] = useState<{ id: string; problem: string } | null>(null);
  const { busy, error, run } = useAction();
  if (interrupts.length === 0) return null;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const answers = answersOf(interrupts, drafts);
    if ("problem" in answers) return setProblem(answers);
    setProblem(null);
    run(() => onResume(answers.value));
  };
  return (
    <section aria-labelledby="interrupts-title" className="rounded-xl border border-warn/50 bg-panel shadow-(--shadow)">
      <h2
        id="interrupts-title"
        className="flex items-center gap-2 rounded-t-xl bg-warn-soft px-4 py-2.5 text-sm font-semibold text-warn"
      >
        <Hand aria-hidden size={16} />
        {interrupts.length === 1 ? "The graph waits for an answer" : `The graph waits for ${interrupts.length} answers`}
      </h2>
      <form onSubmit={submit} className="space-y-4 p-4">
        {interrupts.map((it) => (
          <AnswerField
            key={it.id}
            interrupt={it}
            answer={drafts[it.id]}
            problem={problem?.id === it.id ? problem.problem : null}
            onChange={(answer) => setDrafts({ ...drafts, [it.id]: answer })}
          />
        ))}
        {error !== null && <Problem title="The run could not be resumed" error={error} />}
        <Button type="submit" look="solid" size="md" disabled={busy}>
          Resume
        </Button>
      </form>
    </section>
  );
}
