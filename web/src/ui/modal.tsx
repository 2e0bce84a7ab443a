import { X } from "lucide-react";
import { type ReactElement, type ReactNode, useId, useLayoutEffect, useRef } from "react";

import { cn } from "@/lib/cn";

import { Button } from "./button";

interface Props {
  title: string;
  onClose: () => void;
  /** False if the dialog must be completed before the user can continue. */
  closable?: boolean;
  className?: string;
  children: ReactNode;
}

/** A native dialog: traps the focus, closes with Escape and makes the rest of the page inert. */
export function Modal({ title, onClose, closable = true, className, children }: Props): ReactElement {
  const dialog = useRef<HTMLDialogElement>(null);
  const label = useId();
  // Closing the dialog before it is unmounted restores the focus.
  useLayoutEffect(() => {
    const it = dialog.current;
    if (it && !it.open) it.showModal();
    return () => it?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={label}
      onClose={onClose}
      onCancel={(event) => {
        if (!closable) event.preventDefault();
      }}
      className={cn(
        "max-h-[90dvh] w-[min(36rem,calc(100vw-2rem))] overflow-auto rounded-xl border border-line bg-panel p-0 shadow-2xl",
        className,
      )}
    >
      <header className="sticky top-0 z-10 flex items-center justify-between gap-4 border-b border-line bg-panel px-5 py-3">
        <h2 id={label} className="font-semibold">
          {title}
        </h2>
        {closable && (
          <Button
            look="ghost"
            size="icon"
            className="size-8"
            aria-label="Close"
            onClick={() => dialog.current?.close()}
          >
            <X aria-hidden />
          </Button>
        )}
      </header>
      <div className="p-5">{children}</div>
    </dialog>
  );
}
