import { type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import { count, dollars, milliseconds } from "@/lib/format";
import type { ModelCall } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { Problem } from "@/ui/problem";

interface Props {
  run: string;
  agent: string;
  /** The move under debate; null outside of debates. */
  move: string | null;
  /** Version of the calls. They are loaded again when it changes. */
  version: string;
}

/** The model calls of an agent: prompt, answer, model, tokens, cost and time. Loaded when opened. */
export function Calls(props: Props): ReactElement {
  const [open, setOpen] = useState(false);
  return (
    <details
      className="rounded-lg border border-line"
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary className="px-3 py-2 font-medium">Model calls: prompt, answer, tokens and time</summary>
      {open && <CallList {...props} />}
    </details>
  );
}

export function CallList({ run, agent, move, version }: Props): ReactElement {
  const load = (signal: AbortSignal): Promise<{ calls: ModelCall[] }> => api.calls(run, agent, move, signal);
  const { value, error } = useFetched(`${run} ${agent} ${move}`, load, version);
  return (
    <div className="space-y-3 border-t border-line p-3 text-sm">
      {error !== null && <Problem title="Could not load the calls" error={error} />}
      {error === null && value === null && <p className="text-dim">Loading the calls…</p>}
      {value?.calls.length === 0 && <p className="text-dim">No call has been answered yet.</p>}
      <ol className="space-y-4">
        {value?.calls.map((it, idx) => (
          <li key={idx}>
            <Call call={it} number={idx + 1} />
          </li>
        ))}
      </ol>
    </div>
  );
}

function Call({ call, number }: { call: ModelCall; number: number }): ReactElement {
  const facts = [
    ["Model", call.model],
    ["Temperature", call.temperature ?? "default"],
    ["Time", milliseconds(call.latency_ms)],
    ["Tokens", `${count(call.input_tokens)} in, ${count(call.output_tokens)} out`],
    ["Cost", dollars(call.dollars)],
  ];
  return (
    <section aria-label={`Call ${number}`} className="space-y-2">
      <dl className="flex flex-wrap gap-x-5 gap-y-1 text-[13px]">
        {facts.map(([name, value]) => (
          <div key={name} className="flex gap-1.5">
            <dt className="text-dim">{name}</dt>
            <dd className="font-medium tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      <Text title="Prompt" label={`Prompt of call ${number}`}>
        {[["Instructions", call.system_prompt], ...call.prompt.map((it) => [ROLES[it.role] ?? it.role, it.text])]
          .map(([who, text]) => `${who}:\n${text}`)
          .join("\n\n")}
      </Text>
      <Text title="Answer" label={`Answer of call ${number}`} open>
        {call.answer}
      </Text>
    </section>
  );
}

const ROLES: Record<string, string> = { user: "Message", assistant: "Earlier answer" };

function Text({
  title,
  label,
  open = false,
  children,
}: {
  title: string;
  label: string;
  open?: boolean;
  children: string;
}): ReactElement {
  return (
    <details open={open} className="rounded-md bg-sunk">
      <summary className="px-3 py-1.5 text-[13px] font-medium">
        {title} <span className="font-normal text-dim">({count(children.length)} characters)</span>
      </summary>
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className="max-h-80 overflow-auto px-3 pb-3 font-mono text-xs leading-relaxed whitespace-pre-wrap"
      >
        {children}
      </pre>
    </details>
  );
}
