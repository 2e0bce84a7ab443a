import { ChevronRight } from "lucide-react";
import type { ReactElement } from "react";

import { counted } from "@/lib/format";
import type { Json } from "@studio/api/types";

/** Levels that are open at first. */
const OPEN_DEPTH = 2;
/** Number of items or fields of a value that are shown. */
const MAX_ENTRIES = 200;

/** A JSON value as a tree of text. Nothing in it is interpreted. */
export function JsonView({ value, depth = 0 }: { value: Json; depth?: number }): ReactElement {
  if (typeof value !== "object" || value === null) return <Scalar value={value} />;
  const isList = Array.isArray(value);
  const entries: [string, Json][] = isList ? value.map((it, idx) => [String(idx), it]) : Object.entries(value);
  if (entries.length === 0) return <span className="font-mono text-[13px] text-dim">{isList ? "[]" : "{}"}</span>;
  return (
    <ul className={depth === 0 ? "space-y-1" : "space-y-1 border-l border-line pl-3"}>
      {entries.slice(0, MAX_ENTRIES).map(([name, it]) => (
        <li key={name} className="text-[13px]">
          <Entry name={name} value={it} depth={depth} />
        </li>
      ))}
      {entries.length > MAX_ENTRIES && (
        <li className="text-xs text-dim">{entries.length - MAX_ENTRIES} more are not shown</li>
      )}
    </ul>
  );
}

function Entry({ name, value, depth }: { name: string; value: Json; depth: number }): ReactElement {
  const label = <span className="font-mono text-[13px] text-accent">{name}</span>;
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0) {
    return (
      <div className="flex gap-2">
        <span className="shrink-0">{label}</span>
        <div className="min-w-0">
          <JsonView value={value} depth={depth + 1} />
        </div>
      </div>
    );
  }
  const count = Object.keys(value).length;
  return (
    <details open={depth < OPEN_DEPTH}>
      <summary className="list-none">
        <ChevronRight
          aria-hidden
          size={13}
          className="mr-0.5 -ml-1 inline text-dim transition-transform [details[open]>summary_&]:rotate-90"
        />
        {label} <span className="text-xs text-dim">{counted(count, Array.isArray(value) ? "item" : "field")}</span>
      </summary>
      <div className="mt-1">
        <JsonView value={value} depth={depth + 1} />
      </div>
    </details>
  );
}

function Scalar({ value }: { value: string | number | boolean | null }): ReactElement {
  if (typeof value === "string") {
    return <span className="text-[13px] whitespace-pre-wrap">{value === "" ? "“”" : value}</span>;
  }
  return <span className="font-mono text-[13px] text-good">{String(value)}</span>;
}

/** Returns a value in one line, cut off after `limit` characters. */
export function brief(value: Json, limit = 80): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}
