import { type ReactElement, useEffect } from "react";

import { counted } from "@/lib/format";
import type { Setup } from "@/lib/types";

import { RunList } from "./run-list";
import { Stages } from "./stages";
import { TickerForm } from "./ticker-form";

export function HomePage({ setup }: { setup: Setup }): ReactElement {
  useEffect(() => {
    document.title = "Consulting";
  }, []);
  const { analysts, decision_makers, top_k } = setup.config;
  const moves = analysts.reduce((sum, it) => sum + it.moves.length, 0);
  return (
    <div className="grid grid-cols-1 items-start gap-x-8 gap-y-6 lg:grid-cols-2">
      <div className="space-y-5">
        <div>
          <h1 className="text-2xl font-semibold tracking-tight">Strategic moves, tested in debate</h1>
          <p className="mt-1.5 max-w-prose text-dim">
            {counted(analysts.length, "analyst", ["proposes", "propose"])} {counted(moves, "move")} for a company. A
            critic challenges each of them,{" "}
            {counted(decision_makers.length, "decision maker", ["defends and scores", "defend and score"])} it, and the
            best {counted(top_k, "move", ["is", "are"])} recommended, with full transcripts.
          </p>
        </div>
        <TickerForm setup={setup} />
        <Stages setup={setup} />
      </div>
      <RunList />
    </div>
  );
}
