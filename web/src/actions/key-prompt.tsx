import { type FormEvent, type ReactElement, useState } from "react";

import { key } from "@/lib/api";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Modal } from "@/ui/modal";

/** Asks for the key that the server wants. It is kept until the tab is closed. */
export function KeyPrompt({ wrong, onGiven }: { wrong: boolean; onGiven: () => void }): ReactElement {
  const [value, setValue] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    key.set(value.trim());
    onGiven();
  };
  return (
    <Modal title="This server asks for an API key" closable={false} onClose={() => {}}>
      <form onSubmit={submit} className="space-y-4">
        <Field
          label="API key"
          type="password"
          autoComplete="off"
          required
          autoFocus
          aria-invalid={wrong}
          hint={
            wrong ? "The server does not accept this key." : "It is kept in this tab only and sent to this server only."
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
