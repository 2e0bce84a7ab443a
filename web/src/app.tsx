import { type ReactElement, useCallback, useEffect, useState } from "react";

import { KeyPrompt } from "@/actions/key-prompt";
import { ComparePage } from "@/compare/compare-page";
import { HomePage } from "@/home/home-page";
import { ApiError, api, key } from "@/lib/api";
import { usePlace } from "@/lib/router";
import type { Setup } from "@/lib/types";
import { RunPage } from "@/run/run-page";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import { TopBar } from "@/ui/top-bar";

type Door = "closed" | "open" | "wants key" | "wrong key";

export function App(): ReactElement {
  const [setup, setSetup] = useState<Setup | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
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
      if (cause instanceof ApiError && cause.wantsKey) setDoor("wrong key");
      else setError(cause as ApiError);
    }
  }, []);
  useEffect(() => void enter(), [enter]);
  return (
    <>
      <TopBar />
      <main id="main" tabIndex={-1} className="mx-auto max-w-[1440px] px-4 py-6 outline-none sm:px-6">
        {error && (
          <Problem whole title="The server does not answer as it should" error={error}>
            <Button className="mt-3" onClick={() => void enter()}>
              Try again
            </Button>
          </Problem>
        )}
        {door === "open" && setup && <Page setup={setup} />}
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

function Page({ setup }: { setup: Setup }): ReactElement {
  const { path } = usePlace();
  const run = /^\/runs\/([^/]+)\/?$/.exec(path)?.[1];
  if (run !== undefined) {
    const id = decodeURIComponent(run);
    return <RunPage key={id} id={id} setup={setup} />;
  }
  if (path === "/compare") return <ComparePage />;
  if (path === "/") return <HomePage setup={setup} />;
  return <Problem whole title="There is no such page" error={`Nothing is at ${path}.`} />;
}
