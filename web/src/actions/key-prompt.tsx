import { type FormEvent, type ReactElement, useState } from "react";

import { key } from "@/lib/http";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Modal } from "@/ui/modal";

/** Asks for the API key. It is stored until the tab is closed. */
export function KeyPrompt({ rejected, onKey }: { rejected: boolean; onKey: () => void }): ReactElement {
  const [value, setValue] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    key.set(value.trim());
    onKey();
  };
  return (
    <Modal title="This server requires an API key" closable={false} onClose={() => {}}>
      <form onSubmit={submit} className="space-y-4">
        <Field
          label="API key"
          type="password"
          autoComplete="off"
          required
          autoFocus
          aria-invalid={rejected}
          hint={
            rejected
              ? "The server does not accept this key."
              : "It is stored only in this tab and sent only to this server."
          }
          value={value}
          onChange={(it) => setValue(it.target.value)}
        />
        <div className="flex justify-end">
          <Button type="submit" look="solid" size="md">
            Use this key
          </Button>
        </div>
      </form>
    </Modal>
  );
}
