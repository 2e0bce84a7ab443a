import { Play } from "lucide-react";
import { type FormEvent, type ReactElement, useEffect, useRef, useState } from "react";

import { useAction } from "@/actions/use-action";
import { Button } from "@/ui/button";
import { Problem } from "@/ui/problem";
import { isObject } from "@studio/api/json";
import type { Json, JsonObject, RunRequest, Schemas } from "@studio/api/types";
import { JsonArea } from "@studio/ui/json-area";

import { type Draft, type FormField, fieldsOf, parseJson, valueOf } from "./schema";
import { SchemaForm } from "./schema-form";
import { useStoredDraft } from "./stored-draft";

interface Props {
  graph: string;
  schemas: Schemas | null;
  isBusy: boolean;
  /** Whether the run creates a thread. */
  isNew: boolean;
  onStart: (request: Omit<RunRequest, "assistant_id">) => Promise<void>;
}

/** The input of a run, as a form or as JSON. It survives reloads. */
export function RunForm({ graph, schemas, isBusy, isNew, onStart }: Props): ReactElement {
  const fields = fieldsOf(schemas?.input_schema ?? null);
  const contextFields = fieldsOf(schemas?.context_schema ?? null);
  const [draft, setDraft] = useStoredDraft<Draft>(`input ${graph}`, {});
  const [context, setContext] = useStoredDraft<Draft>(`context ${graph}`, {});
  const [raw, setRaw] = useStoredDraft<string | null>(`json ${graph}`, null);
  const [problem, setProblem] = useState<{ field: string; problem: string } | null>(null);
  const { busy, error, run } = useAction();
  const isRaw = raw !== null || fields === null;

  const submit = (): void => {
    const input = isRaw ? readRaw(raw ?? "{}") : valueOf(fields, draft);
    if ("problem" in input) return setProblem(input);
    const settings = valueOf(contextFields ?? [], context);
    if ("problem" in settings) return setProblem(settings);
    setProblem(null);
    const hasContext = Object.keys(settings.value).length > 0;
    run(() => onStart({ input: input.value, ...(hasContext && { context: settings.value }) }));
  };
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    const element = form.current;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element?.requestSubmit();
    };
    element?.addEventListener("keydown", onKey);
    return () => element?.removeEventListener("keydown", onKey);
  }, []);
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    if (!busy && !isBusy) submit();
  };
  return (
    <form ref={form} onSubmit={onSubmit} aria-label="Input" className="space-y-4">
      {isRaw ? (
        <JsonArea label="Input as JSON" rows={8} text={raw ?? "{}"} invalid={problem?.field === ""} onChange={setRaw} />
      ) : (
        <SchemaForm fields={fields} draft={draft} onChange={setDraft} invalid={problem?.field ?? null} />
      )}
      {contextFields && (
        <details className="rounded-lg border border-line">
          <summary className="px-3 py-2 text-[13px] font-medium">Context</summary>
          <div className="border-t border-line p-3">
            <SchemaForm fields={contextFields} draft={context} onChange={setContext} invalid={problem?.field ?? null} />
          </div>
        </details>
      )}
      {problem && (
        <p role="alert" className="text-[13px] text-bad">
          {problem.problem}
        </p>
      )}
      {error !== null && <Problem title="The run could not be started" error={error} />}
      <div className="flex flex-wrap items-center gap-2">
        <Button type="submit" look="solid" size="md" disabled={busy || isBusy}>
          <Play aria-hidden /> {isNew ? "Run on a new thread" : "Run on this thread"}
        </Button>
        {fields && (
          <Button
            look="ghost"
            size="md"
            aria-pressed={isRaw}
            onClick={() => setRaw(isRaw ? null : toRaw(fields, draft))}
          >
            JSON
          </Button>
        )}
        {isBusy && <span className="text-[13px] text-dim">A run is in progress.</span>}
      </div>
    </form>
  );
}

/** Returns the JSON of what the user entered, or an empty object if it is invalid. */
function toRaw(fields: readonly FormField[], draft: Draft): string {
  const value = valueOf(fields, draft);
  return JSON.stringify("value" in value ? value.value : {}, null, 2);
}

function readRaw(text: string): { value: JsonObject } | { field: string; problem: string } {
  const parsed: { value: Json } | { problem: string } = parseJson(text);
  if ("problem" in parsed) return { field: "", problem: `Input: ${parsed.problem}` };
  if (!isObject(parsed.value)) return { field: "", problem: "Input: enter a JSON object." };
  return { value: parsed.value };
}
