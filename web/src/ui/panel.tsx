import { ChevronDown } from "lucide-react";
import type { ReactElement, ReactNode } from "react";

import { cn } from "@/lib/cn";
import { useMedia } from "@/lib/media";

interface Props {
  title?: ReactNode;
  /** Content at the end of the title line. */
  aside?: ReactNode;
  className?: string;
  /** Classes of the content area. */
  inner?: string;
  /** Whether the content scrolls and is reachable by keyboard. */
  scrolls?: boolean;
  /** Whether the section is closed at first on a phone. */
  folds?: boolean;
  id?: string;
  children: ReactNode;
}

const HEADER = "flex min-h-12 flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2";

/** A framed section, usually with a title. */
export function Panel(props: Props): ReactElement {
  const { title, aside, className, inner, scrolls = false, folds = false, id, children } = props;
  const narrow = useMedia("(max-width: 767px)");
  const heading = (
    <h2 id={id ? `${id}-title` : undefined} className="text-sm font-semibold">
      {title}
    </h2>
  );
  const content = (
    <div
      className={cn("p-4", inner, scrolls && "max-h-96 overflow-auto")}
      {...(scrolls && { tabIndex: 0, role: "group", "aria-label": `${title}, scrollable` })}
    >
      {children}
    </div>
  );
  return (
    <section
      id={id}
      aria-labelledby={title && id ? `${id}-title` : undefined}
      className={cn("rounded-xl border border-line bg-panel shadow-(--shadow)", className)}
    >
      {folds && narrow ? (
        <details className="group">
          <summary className={cn(HEADER, "border-transparent group-open:border-line")}>
            {heading}
            <ChevronDown aria-hidden className="size-4 text-dim transition-transform group-open:rotate-180" />
          </summary>
          {content}
        </details>
      ) : (
        <>
          {title !== undefined && (
            <header className={HEADER}>
              {heading}
              {aside}
            </header>
          )}
          {content}
        </>
      )}
    </section>
  );
}
