import { type FormEvent, type ReactElement, useState } from "react";

import { useAction } from "@/actions/use-action";
import { Button } from "@/ui/button";
import { Field, Select } from "@/ui/field";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";
import { api } from "@studio/api/client";
import type { JsonObject } from "@studio/api/types";
import { parseJson } from "@studio/form/schema";
import { JsonArea } from "@studio/ui/json-area";

import type { Checkpoint } from "./checkpoint";

interface Props {
  thread: string;
  checkpoint: Checkpoint;
  onClose: () => void;
  onEdited: (checkpoint: string) => void;
}

/** Writes fields of the state. The edit creates a new checkpoint; at an older one, it starts a new branch. */
export function EditDialog({ thread, checkpoint, onClose, onEdited }: Props): ReactElement {
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [node, setNode] = useState("");
  const [problem, setProblem] = useState<{ field: string; problem: string } | null>(null);
  const { busy, error, run } = useAction();
  const unused = Object.keys(checkpoint.values).filter((it) => !(it in texts));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const values: JsonObject = {};
    for (const [field, text] of Object.entries(texts)) {
      const parsed = parseJson(text);
      if ("problem" in parsed) return setProblem({ field, problem: parsed.problem });
      values[field] = parsed.value;
    }
    setProblem(null);
    run(async () => {
      const body = { values, checkpoint_id: checkpoint.id, ...(node !== "" && { as_node: node }) };
      const edited = await api.updateState(thread, body);
      onClose();
      onEdited(edited.checkpoint_id);
    });
  };
  return (
    <Modal title={`Edit the state at checkpoint ${checkpoint.step}`} onClose={onClose}>
      <form onSubmit={submit} className="space-y-4">
        <Select
          label="Add a field"
          hint="A field with a reducer combines the new value with the old one. For example, a list may append it."
          value=""
          disabled={unused.length === 0}
          onChange={(event) => {
            const field = event.target.value;
            setTexts({ ...texts, [field]: JSON.stringify(checkpoint.values[field] ?? null, null, 2) });
          }}
        >
          <option value="">Choose a field</option>
          {unused.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </Select>
        {Object.entries(texts).map(([field, text]) => (
          <div key={field}>
            <JsonArea
              label={`${field} (JSON)`}
              rows={Math.min(12, text.split("\n").length + 1)}
              text={text}
              invalid={problem?.field === field}
              onChange={(it) => setTexts({ ...texts, [field]: it })}
            />
            {problem?.field === field && (
              <p role="alert" className="mt-1 text-[13px] text-bad">
                {field}: {problem.problem}
              </p>
            )}
          </div>
        ))}
        <Field
          label="As node"
          hint="The node that appears to have written the values; its successors run next. Empty: the last node."
          value={node}
          onChange={(event) => setNode(event.target.value.trim())}
        />
        {error !== null && <Problem title="The state could not be edited" error={error} />}
        <div className="flex justify-end gap-2">
          <Button size="md" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" look="solid" size="md" disabled={busy || Object.keys(texts).length === 0}>
            Save as a new checkpoint
          </Button>
        </div>
      </form>
    </Modal>
  );
}
