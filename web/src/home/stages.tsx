import type { ReactElement } from "react";

import type { Setup } from "@/lib/types";

/** How a run goes, in five steps. */
export function Stages({ setup }: { setup: Setup }): ReactElement {
  const { analysts, decision_makers, metrics, top_k, rounds } = setup.config;
  const steps = [
    ["Data", "The company’s numbers and what is said about it become two documents."],
    ["Findings", "Numbered findings are drawn from them. Everything later has to cite them."],
    ["Moves", `${analysts.length} analysts with different lenses propose moves of low, medium and high risk.`],
    [
      "Debates",
      `A critic attacks each move over ${rounds} rounds, each in a sandbox; ${decision_makers.length} decision makers defend it.`,
    ],
    [
      "Ranking",
      `They score it by ${metrics.length} metrics. The best ${top_k} are recommended, and how sure that is, is said.`,
    ],
  ];
  return (
    <section aria-labelledby="how">
      <h2 id="how" className="mb-2 text-sm font-semibold">
        How a run goes
      </h2>
      <ol className="space-y-2.5">
        {steps.map(([name, text], idx) => (
          <li key={name} className="flex gap-3 text-sm">
            <span
              aria-hidden
              className="grid size-6 shrink-0 place-items-center rounded-full bg-accent-soft text-xs font-semibold text-accent"
            >
              {idx + 1}
            </span>
            <p>
              <b className="font-semibold">{name}.</b> <span className="text-dim">{text}</span>
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}
