import type { ReactElement } from "react";

import { counted } from "@/lib/format";
import type { Setup } from "@/lib/types";

/** Explains a run in five steps. */
export function Stages({ setup }: { setup: Setup }): ReactElement {
  const { analysts, decision_makers, metrics, top_k, rounds } = setup.config;
  const steps = [
    ["Data", "The company’s figures and the news about it are compiled into two documents."],
    ["Findings", "Numbered findings are derived from the documents. All later steps cite them."],
    [
      "Moves",
      `${counted(analysts.length, "analyst", ["proposes", "propose"])} low-, medium- and high-risk moves${analysts.length > 1 ? " from different perspectives" : ""}.`,
    ],
    [
      "Debates",
      `A critic challenges each move over ${counted(rounds, "round")}, and ${counted(decision_makers.length, "decision maker", ["defends", "defend"])} it. Every debate runs in its own sandbox.`,
    ],
    [
      "Ranking",
      `Each move is scored on ${counted(metrics.length, "metric")}. The best ${counted(top_k, "move", ["is", "are"])} recommended, with an assessment of how reliable that is.`,
    ],
  ];
  return (
    <section aria-labelledby="how">
      <h2 id="how" className="mb-2 text-sm font-semibold">
        How it works
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
