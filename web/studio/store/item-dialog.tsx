import { type FormEvent, type ReactElement, useState } from "react";

import { useAction } from "@/actions/use-action";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";
import { isObject } from "@studio/api/json";
import { api } from "@studio/api/client";
import type { StoreItem } from "@studio/api/types";
import { parseJson } from "@studio/form/schema";
import { JsonArea } from "@studio/ui/json-area";

interface Props {
  /** The item to change; null creates one. */
  item: StoreItem | null;
  /** Namespace of a new item. */
  namespace: readonly string[];
  onClose: () => void;
  onSaved: () => void;
}

/** Creates or changes an item of the store. */
export function ItemDialog({ item, namespace, onClose, onSaved }: Props): ReactElement {
  const [labels, setLabels] = useState((item?.namespace ?? namespace).join("/"));
  const [name, setName] = useState(item?.key ?? "");
  const [text, setText] = useState(JSON.stringify(item?.value ?? {}, null, 2));
  const [problem, setProblem] = useState<string | null>(null);
  const { busy, error, run } = useAction();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const parsed = parseJson(text);
    if ("problem" in parsed) return setProblem(`Value: ${parsed.problem}`);
    const { value } = parsed;
    if (!isObject(value)) return setProblem("Value: enter a JSON object.");
    run(async () => {
      await api.putItem({ namespace: item?.namespace ?? labels.split("/"), key: name, value });
      onSaved();
      onClose();
    });
  };
  return (
    <Modal title={item ? `Edit ${item.key}` : "New item"} onClose={onClose}>
      <form onSubmit={submit} className="space-y-4">
        <Field
          label="Namespace"
          hint="Labels separated by slashes"
          required
          disabled={item !== null}
          value={labels}
          onChange={(event) => setLabels(event.target.value)}
        />
        <Field
          label="Key"
          required
          disabled={item !== null}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <JsonArea label="Value (JSON)" rows={8} text={text} invalid={problem !== null} onChange={setText} />
        {problem !== null && (
          <p role="alert" className="text-[13px] text-bad">
            {problem}
          </p>
        )}
        {error !== null && <Problem title="The item could not be saved" error={error} />}
        <div className="flex justify-end gap-2">
          <Button size="md" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" look="solid" size="md" disabled={busy}>
            Save
          </Button>
        </div>
      </form>
    </Modal>
  );
}
