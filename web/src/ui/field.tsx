import { type InputHTMLAttributes, type ReactElement, type ReactNode, type TextareaHTMLAttributes, useId } from "react";

import { cn } from "@/lib/cn";

export const inputLook =
  "w-full rounded-md border border-edge bg-panel px-2.5 text-ink placeholder:text-dim " +
  "disabled:opacity-55 aria-invalid:border-bad";

interface Labelled {
  label: ReactNode;
  hint?: ReactNode;
}

export function Field({
  label,
  hint,
  className,
  ...rest
}: Labelled & InputHTMLAttributes<HTMLInputElement>): ReactElement {
  const id = useId();
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      <input id={id} aria-describedby={hint ? `${id}-hint` : undefined} className={cn(inputLook, "h-9")} {...rest} />
      {hint && (
        <p id={`${id}-hint`} className="mt-1 text-xs text-dim">
          {hint}
        </p>
      )}
    </div>
  );
}

export function Area({
  label,
  hint,
  className,
  ...rest
}: Labelled & TextareaHTMLAttributes<HTMLTextAreaElement>): ReactElement {
  const id = useId();
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      <textarea
        id={id}
        aria-describedby={hint ? `${id}-hint` : undefined}
        className={cn(inputLook, "py-2 text-sm")}
        {...rest}
      />
      {hint && (
        <p id={`${id}-hint`} className="mt-1 text-xs text-dim">
          {hint}
        </p>
      )}
    </div>
  );
}

export function Check({ label, hint, ...rest }: Labelled & InputHTMLAttributes<HTMLInputElement>): ReactElement {
  const id = useId();
  return (
    <div className="flex items-start gap-2.5">
      <input
        id={id}
        type="checkbox"
        aria-describedby={hint ? `${id}-hint` : undefined}
        className="mt-1 size-4 shrink-0 accent-(--accent)"
        {...rest}
      />
      <div>
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {hint && (
          <p id={`${id}-hint`} className="text-xs text-dim">
            {hint}
          </p>
        )}
      </div>
    </div>
  );
}
