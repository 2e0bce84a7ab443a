import { useState } from "react";

/** State that survives reloads of the tab. When the name changes, the state stored under the new name is read. */
export function useStoredDraft<T>(name: string, initial: T): [T, (value: T) => void] {
  const [state, setState] = useState(() => ({ name, value: read(name, initial) }));
  const current = state.name === name ? state.value : read(name, initial);
  return [
    current,
    (value) => {
      sessionStorage.setItem(`studio.${name}`, JSON.stringify(value));
      setState({ name, value });
    },
  ];
}

function read<T>(name: string, initial: T): T {
  const stored = sessionStorage.getItem(`studio.${name}`);
  return stored === null ? initial : (JSON.parse(stored) as T);
}
