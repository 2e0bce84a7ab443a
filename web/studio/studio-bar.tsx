import { Database, Keyboard, Workflow } from "lucide-react";
import { type ReactElement, useState } from "react";

import { cn } from "@/lib/cn";
import { Button } from "@/ui/button";
import { Link } from "@/ui/link";
import { Modal } from "@/ui/modal";
import { ThemeButton } from "@/ui/theme-button";
import type { Assistant } from "@studio/api/types";

import { slugOf, titleOf } from "./assistant";
import icon from "./icon.svg";
import { type Place, goTo, hrefOf } from "./place";
import { SHORTCUTS, useShortcuts } from "./shortcuts";

interface Props {
  assistants: readonly Assistant[];
  current: Assistant | null;
  place: Place;
}

/** Choice of the graph, and links to the views. */
export function StudioBar({ assistants, current, place }: Props): ReactElement {
  const [help, setHelp] = useState(false);
  useShortcuts({ "?": () => setHelp(true) });
  const graph = current && slugOf(current);
  return (
    <header className="sticky top-0 z-20 border-b border-line bg-panel/95 backdrop-blur">
      <a
        href="#main"
        className="absolute left-2 -translate-y-20 rounded-md bg-accent px-3 py-2 text-sm text-on-accent focus:translate-y-2"
      >
        Skip to content
      </a>
      <div className="mx-auto flex h-13 max-w-[1680px] items-center gap-2 px-3 sm:gap-3 sm:px-4">
        <img src={icon} alt="" width={26} height={26} />
        <h1 className="font-semibold max-sm:sr-only">Studio</h1>
        <label htmlFor="graph" className="sr-only">
          Graph
        </label>
        <select
          id="graph"
          value={graph ?? ""}
          onChange={(event) => goTo({ graph: event.target.value })}
          className="h-9 min-w-0 flex-1 rounded-md border border-edge bg-panel px-2 text-sm sm:max-w-64"
        >
          {current === null && <option value="">Choose a graph</option>}
          {assistants.map((it) => (
            <option key={it.assistant_id} value={slugOf(it)}>
              {titleOf(it)}
            </option>
          ))}
        </select>
        <nav aria-label="Main" className="ml-auto flex items-center gap-0.5">
          <BarLink
            href={hrefOf({ ...place, view: "run" })}
            current={place.view === "run"}
            icon={Workflow}
            text="Graph"
          />
          <BarLink
            href={hrefOf({ ...place, view: "store" })}
            current={place.view === "store"}
            icon={Database}
            text="Store"
          />
          <Button
            look="ghost"
            size="icon"
            className="max-sm:hidden"
            aria-label="Keyboard shortcuts"
            onClick={() => setHelp(true)}
          >
            <Keyboard aria-hidden />
          </Button>
          <ThemeButton />
        </nav>
      </div>
      {help && (
        <Modal title="Keyboard shortcuts" onClose={() => setHelp(false)}>
          <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-2 text-sm">
            {SHORTCUTS.map(([keys, effect]) => (
              <div key={keys} className="contents">
                <dt>
                  <kbd className="rounded border border-edge bg-sunk px-1.5 py-0.5 font-mono text-xs">{keys}</kbd>
                </dt>
                <dd>{effect}</dd>
              </div>
            ))}
          </dl>
        </Modal>
      )}
    </header>
  );
}

function BarLink({
  href,
  current,
  icon: Icon,
  text,
}: {
  href: string;
  current: boolean;
  icon: typeof Database;
  text: string;
}): ReactElement {
  return (
    <Link
      href={href}
      aria-current={current ? "page" : undefined}
      className={cn(
        "flex items-center gap-1.5 rounded-md px-2 py-1.5 text-sm hover:bg-sunk",
        current ? "font-medium text-accent" : "text-dim",
      )}
    >
      <Icon aria-hidden size={16} /> {text}
    </Link>
  );
}
