import type { ReactElement } from "react";

import type { TaskState } from "@studio/api/types";
import { JsonView } from "@studio/ui/json-view";

/** The tasks that run after a checkpoint, with their results and the states of their subgraphs. */
export function TaskList({ tasks }: { tasks: readonly TaskState[] }): ReactElement {
  if (tasks.length === 0) return <p className="text-sm text-dim">No node runs after this checkpoint.</p>;
  return (
    <ul className="space-y-3">
      {tasks.map((it) => (
        <li key={it.id} className="rounded-md border border-line p-3">
          <p className="text-[13px] font-medium">{it.name}</p>
          {it.error !== null && <p className="mt-1 text-[13px] text-bad">{it.error}</p>}
          {it.interrupts.map((one) => (
            <div key={one.id} className="mt-2 rounded bg-warn-soft px-2 py-1">
              <JsonView value={one.value} />
            </div>
          ))}
          {it.result !== null && (
            <div className="mt-2">
              <JsonView value={it.result} depth={1} />
            </div>
          )}
          {it.state && (
            <details className="mt-2">
              <summary className="text-[13px] text-accent">State of the subgraph</summary>
              <div className="mt-2 space-y-2">
                <JsonView value={it.state.values} depth={1} />
                <TaskList tasks={it.state.tasks} />
              </div>
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
