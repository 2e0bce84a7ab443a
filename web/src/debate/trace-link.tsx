import { Route } from "lucide-react";
import type { ReactElement } from "react";

import { useAction } from "@/actions/use-action";
import { api, tracePage } from "@/lib/api";
import { key } from "@/lib/http";
import { Button, buttonLook } from "@/ui/button";
import { Problem } from "@/ui/problem";

interface Props {
  run: string;
  /** Id of a move, or `pipeline`. */
  name: string;
  text: string;
}

/**
 * Opens the page with every step, state and call of a debate or of the pipeline, which the server renders on demand. A
 * link cannot send an API key, so with a key the page is saved as a file instead.
 */
export function TraceLink({ run, name, text }: Props): ReactElement {
  const { busy, error, run: act } = useAction();
  if (key.get() === null) {
    return (
      <a href={tracePage(run, name)} target="_blank" rel="noreferrer" className={buttonLook({})}>
        <Route aria-hidden /> {text} <span className="sr-only">(opens in a new tab)</span>
      </a>
    );
  }
  return (
    <>
      <Button disabled={busy} onClick={() => act(() => api.downloadTracePage(run, name))}>
        <Route aria-hidden /> {busy ? "Preparing the trace…" : text}
      </Button>
      {error !== null && <Problem title="Could not load the trace" error={error} />}
    </>
  );
}
