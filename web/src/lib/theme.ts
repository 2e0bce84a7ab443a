/** Colour scheme: light, dark or the system's. The choice is stored in the browser. */

import { useState } from "react";

export type Theme = "system" | "light" | "dark";

const NAME = "theme";

function stored(): Theme {
  const value = localStorage.getItem(NAME);
  return value === "light" || value === "dark" ? value : "system";
}

/** Applies the colour scheme; called once before the first render. */
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
