/** Keyboard shortcuts. They are inactive while the user types or a dialog is open. */

import { useEffectEvent, useLayoutEffect } from "react";

export const SHORTCUTS: [keys: string, effect: string][] = [
  ["Ctrl Enter", "Start a run with the input in the form"],
  ["n", "New thread"],
  ["/", "Search the threads"],
  ["j", "Select the next checkpoint"],
  ["k", "Select the previous checkpoint"],
  ["?", "Show this list"],
];

export function useShortcuts(actions: Record<string, () => void>): void {
  const onKey = useEffectEvent((event: KeyboardEvent) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    event.preventDefault();
    action();
  });
  // A layout effect, so that the shortcuts of a component work as soon as it is visible.
  useLayoutEffect(() => {
    const listener = (event: KeyboardEvent): void => onKey(event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  // A dialog that has just been closed may still contain the focus.
  return target.closest("input, textarea, select, dialog[open]") !== null;
}
