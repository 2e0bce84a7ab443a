import type { ReactElement } from "react";

import icon from "@/icon.svg";

import { Link } from "./link";
import { ThemeButton } from "./theme-button";

export function TopBar(): ReactElement {
  return (
    <header className="sticky top-0 z-20 border-b border-line bg-panel/95 backdrop-blur">
      <a
        href="#main"
        className="absolute left-2 -translate-y-20 rounded-md bg-accent px-3 py-2 text-sm text-on-accent focus:translate-y-2"
      >
        Skip to content
      </a>
      <div className="mx-auto flex h-14 max-w-[1440px] items-center gap-4 px-4 sm:px-6">
        <Link href="/" className="flex items-center gap-2.5 font-semibold">
          <img src={icon} alt="" width={26} height={26} /> Consulting
        </Link>
        <nav aria-label="Main" className="ml-auto flex items-center gap-1">
          <Link href="/" className="rounded-md px-2.5 py-1.5 text-sm hover:bg-sunk">
            Runs
          </Link>
          <ThemeButton />
        </nav>
      </div>
    </header>
  );
}
