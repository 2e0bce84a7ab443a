import { type ReactElement, useEffect, useState } from "react";

import { KeyPrompt } from "@/actions/key-prompt";
import { key } from "@/lib/http";
import { useFetched } from "@/lib/use-fetched";
import { Boundary } from "@/ui/boundary";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import { api } from "@studio/api/client";

import { findAssistant } from "./assistant";
import { usePlace } from "./place";
import { StorePage } from "./store/store-page";
import { StudioBar } from "./studio-bar";
import { GraphPage } from "./graph-page";

export function App(): ReactElement {
  const place = usePlace();
  const [attempt, setAttempt] = useState(0);
  const [access, setAccess] = useState<"open" | "key required" | "key rejected">("open");
  useEffect(() => {
    key.onRejected = () => setAccess(key.get() === null ? "key required" : "key rejected");
  }, []);
  const retry = (): void => {
    setAccess("open");
    setAttempt((it) => it + 1);
  };
  const { value: assistants, error } = useFetched("assistants", api.assistants, attempt);
  const assistant = findAssistant(assistants ?? [], place.graph);
  return (
    <>
      <StudioBar assistants={assistants ?? []} current={assistant} place={place} />
      <main id="main" tabIndex={-1} className="mx-auto max-w-[1680px] px-3 py-3 outline-none sm:px-4">
        {error !== null && access === "open" && (
          <Problem whole title="The graphs could not be loaded" error={error}>
            <Button className="mt-3" onClick={retry}>
              Try again
            </Button>
          </Problem>
        )}
        {assistants?.length === 0 && <Problem whole title="No graphs" error="This server hosts no graphs." />}
        {assistants && place.graph !== null && assistant === null && (
          <Problem whole title="Graph not found" error={`This server has no graph “${place.graph}”.`} />
        )}
        <Boundary key={`${assistant?.assistant_id} ${place.view}`}>
          {place.view === "store" && assistants && <StorePage />}
          {place.view === "run" && assistant && <GraphPage assistant={assistant} place={place} />}
        </Boundary>
      </main>
      {access !== "open" && <KeyPrompt rejected={access === "key rejected"} onKey={retry} />}
    </>
  );
}
