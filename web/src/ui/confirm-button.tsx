import { type ComponentProps, type ReactElement, useState } from "react";

import { Button } from "./button";
import { Modal } from "./modal";

type Props = Omit<ComponentProps<typeof Button>, "onClick"> & {
  question: string;
  /** Text of the button that confirms. */
  confirm: string;
  onConfirm: () => void;
};

/** A button for an action that cannot be undone. It asks before it acts. */
export function ConfirmButton({ question, confirm, onConfirm, ...button }: Props): ReactElement {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button {...button} onClick={() => setAsking(true)} />
      {asking && (
        <Modal title={question} onClose={() => setAsking(false)}>
          <p className="text-sm">This cannot be undone.</p>
          <div className="mt-4 flex justify-end gap-2">
            <Button size="md" onClick={() => setAsking(false)}>
              Cancel
            </Button>
            <Button
              size="md"
              look="danger"
              onClick={() => {
                setAsking(false);
                onConfirm();
              }}
            >
              {confirm}
            </Button>
          </div>
        </Modal>
      )}
    </>
  );
}
