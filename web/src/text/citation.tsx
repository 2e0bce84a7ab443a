import { Popover } from "radix-ui";
import { type ReactElement, createContext, useContext } from "react";

import { words } from "@/lib/format";

import type { Findings } from "./findings";

/** Findings that citations refer to. */
export const FindingsContext = createContext<Findings>(new Map());

/**
 * A highlighted citation that shows its finding in a popover. An unknown finding is marked once the findings are
 * loaded.
 */
export function Citation({ id }: { id: string }): ReactElement {
  const findings = useContext(FindingsContext);
  const finding = findings.get(id);
  const unknown = findings.size > 0 && !finding;
  return (
    <Popover.Root>
      <Popover.Trigger
        aria-label={`Finding ${id}${unknown ? ", which does not exist" : ""}`}
        className={
          "mx-px inline-flex rounded px-1 align-baseline font-mono text-[0.82em] leading-[1.35] font-medium " +
          (unknown
            ? "bg-bad-soft text-bad underline decoration-wavy underline-offset-2"
            : "bg-accent-soft text-accent hover:bg-accent hover:text-on-accent")
        }
      >
        {id}
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          sideOffset={6}
          collisionPadding={12}
          aria-label={`Finding ${id}`}
          className="z-50 w-[min(24rem,calc(100vw-1.5rem))] rounded-lg border border-line bg-panel p-4 text-sm shadow-xl"
        >
          <p className="mb-1 font-mono text-xs font-semibold text-accent">{id}</p>
          {finding ? (
            <>
              <p>{finding.claim}</p>
              <p className="mt-1 text-xs text-dim">
                {words(finding.kind)} · {finding.direction} · strength {finding.strength}
              </p>
              {finding.evidence.map((it) => (
                <blockquote key={it.quote} className="mt-3 border-l-2 border-edge pl-3 text-xs">
                  <p className="font-mono">{it.quote}</p>
                  <p className="mt-0.5 text-dim">{it.section}</p>
                </blockquote>
              ))}
            </>
          ) : (
            <p>
              {unknown
                ? "This finding does not exist."
                : "The finding is not available yet. It will be shown when the findings are written."}
            </p>
          )}
          <Popover.Arrow className="fill-(--line)" />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
