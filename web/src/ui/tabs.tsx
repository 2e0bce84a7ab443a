import { type ReactElement, type ReactNode, useId } from "react";

import { cn } from "@/lib/cn";

export interface Tab {
  id: string;
  title: ReactNode;
}

interface Props {
  tabs: Tab[];
  current: string;
  label: string;
  onPick: (id: string) => void;
  children: ReactNode;
}

/** Tabs with standard keyboard navigation. */
export function Tabs({ tabs, current, label, onPick, children }: Props): ReactElement {
  const prefix = useId();
  const onKey = (key: string): void => {
    const at = tabs.findIndex((it) => it.id === current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[key];
    const next = to === undefined ? undefined : tabs.at(to % tabs.length);
    if (!next) return;
    onPick(next.id);
    document.getElementById(`${prefix}-${next.id}`)?.focus();
  };
  return (
    <div>
      <div role="tablist" aria-label={label} className="mb-4 flex gap-1 overflow-x-auto border-b border-line">
        {tabs.map((it) => (
          <button
            key={it.id}
            id={`${prefix}-${it.id}`}
            type="button"
            role="tab"
            aria-selected={it.id === current}
            aria-controls={prefix}
            tabIndex={it.id === current ? 0 : -1}
            onClick={() => onPick(it.id)}
            onKeyDown={(event) => onKey(event.key)}
            className={cn(
              "-mb-px border-b-2 px-3 py-2 text-sm font-medium whitespace-nowrap -outline-offset-2",
              it.id === current ? "border-accent text-accent" : "border-transparent text-dim hover:text-ink",
            )}
          >
            {it.title}
          </button>
        ))}
      </div>
      <div id={prefix} role="tabpanel" aria-labelledby={`${prefix}-${current}`}>
        {children}
      </div>
    </div>
  );
}
