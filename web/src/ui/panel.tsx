import type { ReactElement, ReactNode } from "react";

import { cn } from "@/lib/cn";

interface Props {
  title?: ReactNode;
  /** Content at the end of the title line. */
  aside?: ReactNode;
  className?: string;
  /** Classes of the content area. */
  inner?: string;
  /** Whether the content scrolls and is reachable by keyboard. */
  scrolls?: boolean;
  id?: string;
  children: ReactNode;
}

/** A framed section, usually with a title. */
export function Panel({ title, aside, className, inner, scrolls = false, id, children }: Props): ReactElement {
  return (
    <section
      id={id}
      aria-labelledby={title && id ? `${id}-title` : undefined}
      className={cn("rounded-xl border border-line bg-panel shadow-(--shadow)", className)}
    >
      {title !== undefined && (
        <header className="flex min-h-12 flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2">
          <h2 id={id ? `${id}-title` : undefined} className="text-sm font-semibold">
            {title}
          </h2>
          {aside}
        </header>
      )}
      <div
        className={cn("p-4", inner, scrolls && "max-h-96 overflow-auto")}
        {...(scrolls && { tabIndex: 0, role: "group", "aria-label": `${title}, scrollable` })}
      >
        {children}
      </div>
    </section>
  );
}
