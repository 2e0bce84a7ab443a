import type { ReactElement, ReactNode } from "react";

import { Area } from "@/ui/field";

interface Props {
  label: ReactNode;
  hint?: ReactNode;
  text: string;
  invalid?: boolean;
  rows?: number;
  onChange: (text: string) => void;
}

/** A text area for JSON. */
export function JsonArea({ text, invalid = false, rows = 6, onChange, ...rest }: Props): ReactElement {
  return (
    <Area
      {...rest}
      rows={rows}
      value={text}
      spellCheck={false}
      aria-invalid={invalid || undefined}
      style={{ fontFamily: "var(--font-mono)", fontSize: 13 }}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}
