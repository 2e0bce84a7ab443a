import {
  type InputHTMLAttributes,
  type ReactElement,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
} from "react";

import { cn } from "@/lib/cn";

const LOOK =
  "w-full rounded-md border border-edge bg-panel px-2.5 text-ink placeholder:text-dim " +
  "disabled:opacity-55 aria-invalid:border-bad";

interface Labelled {
  label: ReactNode;
  hint?: ReactNode;
}

export function Field({ className, ...props }: Labelled & InputHTMLAttributes<HTMLInputElement>): ReactElement {
  const { control, frame } = useLabelled(props);
  return frame(className, <input className={cn(LOOK, "h-9")} {...control} />);
}

export function Area({ className, ...props }: Labelled & TextareaHTMLAttributes<HTMLTextAreaElement>): ReactElement {
  const { control, frame } = useLabelled(props);
  return frame(className, <textarea className={cn(LOOK, "py-2 text-sm")} {...control} />);
}

export function Select({ className, ...props }: Labelled & SelectHTMLAttributes<HTMLSelectElement>): ReactElement {
  const { control, frame } = useLabelled(props);
  return frame(className, <select className={cn(LOOK, "h-9")} {...control} />);
}

export function Check(props: Labelled & InputHTMLAttributes<HTMLInputElement>): ReactElement {
  const { control, label, hint } = useLabelled(props);
  return (
    <div className="flex items-start gap-2.5">
      <input type="checkbox" className="mt-1 size-4 shrink-0 accent-(--accent)" {...control} />
      <div>
        {label("text-sm font-medium")}
        {hint("text-xs text-dim")}
      </div>
    </div>
  );
}

/** Connects a control with its label and hint. */
function useLabelled<T extends Labelled>({ label, hint, ...rest }: T) {
  const id = useId();
  const parts = {
    control: { id, "aria-describedby": hint ? `${id}-hint` : undefined, ...rest },
    label: (className: string): ReactElement => (
      <label htmlFor={id} className={className}>
        {label}
      </label>
    ),
    hint: (className: string): ReactNode =>
      hint && (
        <p id={`${id}-hint`} className={className}>
          {hint}
        </p>
      ),
  };
  const frame = (className: string | undefined, control: ReactElement): ReactElement => (
    <div className={className}>
      {parts.label("mb-1 block text-[13px] font-medium")}
      {control}
      {parts.hint("mt-1 text-xs text-dim")}
    </div>
  );
  return { ...parts, frame };
}
