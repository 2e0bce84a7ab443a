import { type FormEvent, type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import type { Run } from "@/lib/types";
import { Button } from "@/ui/button";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

import { BudgetFields, NO_BUDGET, budget } from "./budget";
import { useAction } from "./use-action";

/** Goes on with a run that stopped or was cut short, with another budget if wished. */
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
            ? "Moves without a score are debated again, and with a larger budget also those whose debate it cut short."
            : "It goes on from where it stands."}{" "}
          Calls that were answered are not paid for again.
        </p>
        <div className="grid gap-3 sm:grid-cols-2">
          <BudgetFields draft={draft} onChange={(it) => setDraft({ ...draft, ...it })} />
        </div>
        {error !== null && <Problem title="The run cannot be resumed" error={error} />}
        <div className="flex justify-end gap-2">
          <Button size="md" onClick={onClose}>
            Close
          </Button>
          <Button type="submit" look="solid" size="md" disabled={busy}>
            {busy ? "Resuming…" : "Go on"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
