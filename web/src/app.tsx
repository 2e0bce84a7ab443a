import { type ReactElement, type RefObject, useCallback, useEffect, useRef, useState } from "react";

import { KeyPrompt } from "@/actions/key-prompt";
import { ComparePage } from "@/compare/compare-page";
import { HomePage } from "@/home/home-page";
import { api } from "@/lib/api";
import { ApiError, key } from "@/lib/http";
import { usePageLocation } from "@/lib/router";
import type { ServerInfo, Setup } from "@/lib/types";
import { RunPage } from "@/run/run-page";
import { Boundary } from "@/ui/boundary";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import { TopBar } from "@/ui/top-bar";

type Access = "checking" | "granted" | "key required" | "key rejected";

export function App(): ReactElement {
  const [setup, setSetup] = useState<ServerInfo | Setup | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [access, setAccess] = useState<Access>("checking");
  const connect = useCallback(async () => {
    setError(null);
    try {
      const it = await api.setup();
      setSetup(it);
      if (it.needs_key) {
        if (key.get() === null) return setAccess("key required");
        await api.graph();
      }
      setAccess("granted");
    } catch (cause) {
      if (!(cause instanceof ApiError && cause.status === 401)) setError(cause);
    }
  }, []);
  useEffect(() => {
    key.onRejected = () => setAccess(key.get() === null ? "key required" : "key rejected");
    void connect();
  }, [connect]);
  const main = useMainFocus();
  return (
    <>
      <TopBar />
      <main ref={main} id="main" tabIndex={-1} className="mx-auto max-w-[1440px] px-4 py-6 outline-none sm:px-6">
        {error !== null && (
          <Problem whole title="The server did not respond as expected" error={error}>
            <Button className="mt-3" onClick={() => void connect()}>
              Try again
            </Button>
          </Problem>
        )}
        {access === "granted" && setup && "config" in setup && <Page setup={setup} />}
      </main>
      <footer className="mx-auto max-w-[1440px] px-4 pb-8 text-xs text-dim sm:px-6">
        {setup && `consulting ${setup.version}`}. Text written by models is shown as is and is not advice. Graph drawn
        with React Flow.
      </footer>
      {(access === "key required" || access === "key rejected") && (
        <KeyPrompt rejected={access === "key rejected"} onKey={() => void connect()} />
      )}
    </>
  );
}

/** Moves the focus to the content when the page changes, for keyboard and screen reader users. */
function useMainFocus(): RefObject<HTMLElement | null> {
  const { path } = usePageLocation();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current !== path) main.current?.focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  return main;
}

function Page({ setup }: { setup: Setup }): ReactElement {
  const { path } = usePageLocation();
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
  return <Problem whole title="Page not found" error={`There is no page at ${path}.`} />;
}
