import type { ReactElement, ReactNode } from "react";

import { cn } from "@/lib/cn";

interface Props {
  title?: ReactNode;
  /** What stands at the end of the title's line. */
  aside?: ReactNode;
  className?: string;
  /** Of the part below the title. */
  inner?: string;
  level?: 2 | 3;
  id?: string;
  children: ReactNode;
}

/** A part of the page with a frame and, mostly, a title. */
export function Panel({ title, aside, className, inner, level = 2, id, children }: Props): ReactElement {
  const Heading = `h${level}` as "h2" | "h3";
  return (
    <section
      id={id}
      aria-labelledby={title && id ? `${id}-title` : undefined}
      className={cn("rounded-xl border border-line bg-panel shadow-(--shadow)", className)}
    >
      {title !== undefined && (
        <header className="flex min-h-12 flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2">
          <Heading id={id ? `${id}-title` : undefined} className="text-sm font-semibold">
            {title}
          </Heading>
          {aside}
        </header>
      )}
      <div className={cn("p-4", inner)}>{children}</div>
    </section>
  );
}
