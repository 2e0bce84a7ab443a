import type { ReactElement, ReactNode } from "react";

import type { Move } from "@/lib/types";
import { ModelText } from "@/text/model-text";

/** The full text of a move. */
export function MoveText({ move }: { move: Move }): ReactElement {
  return (
    <div className="max-w-prose space-y-3 text-sm">
      <Part title="Why now">
        <p>
          <ModelText text={move.why_now} />
        </p>
      </Part>
      <Part title="Reasoning">
        {move.reasoning.map((it, idx) => (
          <p key={idx} className="mb-2">
            <ModelText text={it} />
          </p>
        ))}
      </Part>
      <Part title="Steps">
        <ol className="list-decimal space-y-1 pl-5 marker:text-dim">
          {move.steps.map((it, idx) => (
            <li key={idx}>
              <ModelText text={it.action} />{" "}
              <span className="text-dim">
                ({it.owner}, {it.timeframe})
              </span>
            </li>
          ))}
        </ol>
      </Part>
      <dl className="grid gap-3 sm:grid-cols-2">
        {(
          [
            ["Cost and resources", move.cost],
            ["KPI", move.kpi],
            ["Downside", move.downside],
            ["Mitigation", move.mitigation],
          ] as const
        ).map(([name, text]) => (
          <div key={name}>
            <dt className="text-xs font-semibold text-dim">{name}</dt>
            <dd>
              <ModelText text={text} />
            </dd>
          </div>
        ))}
      </dl>
      <Part title="What would show this is wrong">
        <ul className="list-disc space-y-1 pl-5 marker:text-dim">
          {move.falsifiers.map((it) => (
            <li key={it}>
              <ModelText text={it} />
            </li>
          ))}
        </ul>
      </Part>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }): ReactElement {
  return (
    <section>
      <h4 className="mb-0.5 text-xs font-semibold text-dim">{title}</h4>
      {children}
    </section>
  );
}
