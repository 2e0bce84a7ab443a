import { type FormEvent, type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import type { Run } from "@/lib/types";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

import { useAction } from "./use-action";

/** Goes on with a run that stopped, with another budget if wished. */
export function ResumeDialog({
  run,
  onClose,
  onDone,
}: {
  run: Run;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const [tokens, setTokens] = useState("");
  const [money, setMoney] = useState("");
  const { busy, error, run: act } = useAction();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    act(async () => {
      await api.resume(run.id, {
        ...(tokens !== "" && { max_tokens: Number(tokens) }),
        ...(money !== "" && { max_dollars: Number(money) }),
      });
      onClose();
      onDone();
    });
  };
  return (
    <Modal title="Resume the run" onClose={onClose}>
      <form onSubmit={submit} className="space-y-4">
        <p className="text-sm text-dim">
          It goes on from where it stands. Calls that were answered are not paid for again.
        </p>
        <div className="grid gap-3 sm:grid-cols-2">
          <Field
            label="Tokens at most"
            type="number"
            min={1}
            placeholder="no limit"
            value={tokens}
            onChange={(it) => setTokens(it.target.value)}
          />
          <Field
            label="Dollars at most"
            type="number"
            min={0}
            step="any"
            placeholder="no limit"
            value={money}
            onChange={(it) => setMoney(it.target.value)}
          />
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
