import { TriangleAlert } from "lucide-react";
import type { ReactElement, ReactNode } from "react";

import { ApiError } from "@/lib/http";

interface Props {
  error: unknown;
  title: string;
  /** Whether the error fills the page, so that its title is the page heading. */
  whole?: boolean;
  children?: ReactNode;
}

/** Shows an error with the server's message and the request id. */
export function Problem({ error, title, whole = false, children }: Props): ReactElement {
  const Title = whole ? "h1" : "p";
  const known = error instanceof ApiError ? error : null;
  return (
    <div role="alert" className="rounded-lg border border-bad/40 bg-bad-soft p-4 text-sm">
      <Title className="flex items-center gap-2 font-semibold text-bad">
        <TriangleAlert aria-hidden className="size-4 shrink-0" /> {title}
      </Title>
      <p className="mt-1">{error instanceof Error ? error.message : String(error)}</p>
      {known?.requestId && <p className="mt-1 font-mono text-xs text-dim">Request {known.requestId}</p>}
      {children}
    </div>
  );
}
