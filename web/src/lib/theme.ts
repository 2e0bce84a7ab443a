/** Light, dark, or what the system prefers. The choice is kept in the browser. */

import { useState } from "react";

export type Theme = "system" | "light" | "dark";

const NAME = "consulting.theme";

function stored(): Theme {
  const value = localStorage.getItem(NAME);
  return value === "light" || value === "dark" ? value : "system";
}

/** Applies the choice; done once before anything is drawn. */
export function applyTheme(theme: Theme = stored()): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, set] = useState(stored);
  return [
    theme,
    (next) => {
      if (next === "system") localStorage.removeItem(NAME);
      else localStorage.setItem(NAME, next);
      applyTheme(next);
      set(next);
    },
  ];
}
