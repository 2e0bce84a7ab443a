import { type FormEvent, type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import type { Run } from "@/lib/types";
import { Button } from "@/ui/button";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

import { BudgetFields, NO_BUDGET, budget } from "./budget";
import { useAction } from "./use-action";

/** Resumes a run that stopped or was cut short, optionally with another budget. */
export function ResumeDialog({
  run,
  onClose,
  onDone,
}: {
  run: Run;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const [draft, setDraft] = useState(NO_BUDGET);
  const { busy, error, run: act } = useAction();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    act(async () => {
      await api.resume(run.id, budget(draft));
      onClose();
      onDone();
    });
  };
  return (
    <Modal title="Resume the run" onClose={onClose}>
      <form onSubmit={submit} className="space-y-4">
        <p className="text-sm text-dim">
          {run.status === "complete"
            ? "Moves without a score are debated again. With a larger budget, debates that were cut short are also continued."
            : "The run continues where it stopped."}{" "}
          Completed calls are not charged again.
        </p>
        <div className="grid gap-3 sm:grid-cols-2">
          <BudgetFields draft={draft} onChange={(it) => setDraft({ ...draft, ...it })} />
        </div>
        {error !== null && <Problem title="Could not resume the run" error={error} />}
        <div className="flex justify-end gap-2">
          <Button size="md" onClick={onClose}>
            Close
          </Button>
          <Button type="submit" look="solid" size="md" disabled={busy}>
            {busy ? "Resuming…" : "Resume"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
