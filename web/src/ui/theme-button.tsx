import { Monitor, Moon, Sun } from "lucide-react";
import type { ReactElement } from "react";

import { type Theme, useTheme } from "@/lib/theme";

import { Button } from "./button";

const NEXT: Record<Theme, { to: Theme; icon: typeof Sun; now: string }> = {
  system: { to: "light", icon: Monitor, now: "system" },
  light: { to: "dark", icon: Sun, now: "light" },
  dark: { to: "system", icon: Moon, now: "dark" },
};

/** Switches between the colour schemes. */
export function ThemeButton(): ReactElement {
  const [theme, setTheme] = useTheme();
  const { to, icon: Icon, now } = NEXT[theme];
  return (
    <Button
      look="ghost"
      size="icon"
      aria-label={`Colour scheme: ${now}. Switch to ${NEXT[to].now}.`}
      onClick={() => setTheme(to)}
    >
      <Icon aria-hidden />
    </Button>
  );
}
