import { type ReactElement, type RefObject, useCallback, useEffect, useRef, useState } from "react";

import { KeyPrompt } from "@/actions/key-prompt";
import { ComparePage } from "@/compare/compare-page";
import { HomePage } from "@/home/home-page";
import { ApiError, api, key } from "@/lib/api";
import { usePlace } from "@/lib/router";
import type { Greeting, Setup } from "@/lib/types";
import { RunPage } from "@/run/run-page";
import { Boundary } from "@/ui/boundary";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import { TopBar } from "@/ui/top-bar";

type Door = "closed" | "open" | "wants key" | "wrong key";

export function App(): ReactElement {
  const [setup, setSetup] = useState<Greeting | Setup | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [door, setDoor] = useState<Door>("closed");
  const enter = useCallback(async () => {
    setError(null);
    try {
      const it = await api.setup();
      setSetup(it);
      if (it.needs_key) {
        if (key.get() === null) return setDoor("wants key");
        await api.graph();
      }
      setDoor("open");
    } catch (cause) {
      if (!(cause instanceof ApiError && cause.status === 401)) setError(cause);
    }
  }, []);
  useEffect(() => {
    key.onRefused = () => setDoor(key.get() === null ? "wants key" : "wrong key");
    void enter();
  }, [enter]);
  const main = useMainFocus();
  return (
    <>
      <TopBar />
      <main ref={main} id="main" tabIndex={-1} className="mx-auto max-w-[1440px] px-4 py-6 outline-none sm:px-6">
        {error !== null && (
          <Problem whole title="The server does not answer as it should" error={error}>
            <Button className="mt-3" onClick={() => void enter()}>
              Try again
            </Button>
          </Problem>
        )}
        {door === "open" && setup && "config" in setup && <Page setup={setup} />}
      </main>
      <footer className="mx-auto max-w-[1440px] px-4 pb-8 text-xs text-dim sm:px-6">
        {setup && `consulting ${setup.version}`}. What models write is shown as text and is no advice. The graph is
        drawn with React Flow.
      </footer>
      {(door === "wants key" || door === "wrong key") && (
        <KeyPrompt wrong={door === "wrong key"} onGiven={() => void enter()} />
      )}
    </>
  );
}

/** Another page begins where its content does, for the keyboard and for screen readers too. */
function useMainFocus(): RefObject<HTMLElement | null> {
  const { path } = usePlace();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current !== path) main.current?.focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  return main;
}

function Page({ setup }: { setup: Setup }): ReactElement {
  const { path } = usePlace();
  return (
    <Boundary key={path}>
      <Content path={path} setup={setup} />
    </Boundary>
  );
}

function Content({ path, setup }: { path: string; setup: Setup }): ReactElement {
  const run = /^\/runs\/([^/]+)\/?$/.exec(path)?.[1];
  if (run !== undefined) {
    const id = decodeURIComponent(run);
    return <RunPage key={id} id={id} setup={setup} />;
  }
  if (path === "/compare") return <ComparePage />;
  if (path === "/") return <HomePage setup={setup} />;
  return <Problem whole title="There is no such page" error={`Nothing is at ${path}.`} />;
}
