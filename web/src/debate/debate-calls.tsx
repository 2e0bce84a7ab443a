import { type ReactElement, useState } from "react";

import type { Run } from "@/lib/types";
import { CallList } from "@/run/calls";
import type { DebateView } from "@/run/view";
import { Select } from "@/ui/field";

/** The model calls of one speaker in a debate, loaded when opened. */
export function DebateCalls({ run, debate }: { run: Run; debate: DebateView }): ReactElement {
  const speakers = [run.config.critic, ...run.config.decision_makers];
  const [open, setOpen] = useState(false);
  const [agent, setAgent] = useState(run.config.critic.id);
  return (
    <details
      className="rounded-xl border border-line bg-panel shadow-(--shadow)"
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary className="px-4 py-2.5 text-sm font-medium">Model calls: prompt, answer, tokens and time</summary>
      {open && (
        <>
          <div className="px-4 pb-3">
            <Select
              label="Speaker"
              className="max-w-72"
              value={agent}
              onChange={(event) => setAgent(event.target.value)}
            >
              {speakers.map((it) => (
                <option key={it.id} value={it.id}>
                  {it.name}
                </option>
              ))}
            </Select>
          </div>
          <CallList run={run.id} agent={agent} move={debate.move} version={`${debate.round} ${debate.step}`} />
        </>
      )}
    </details>
  );
}
