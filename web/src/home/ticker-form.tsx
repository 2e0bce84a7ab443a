import { ArrowRight } from "lucide-react";
import { type FormEvent, type ReactElement, useState } from "react";

import { BudgetFields, type BudgetDraft, NO_BUDGET, budget, number } from "@/actions/budget";
import { useAction } from "@/actions/use-action";
import { api } from "@/lib/api";
import { go } from "@/lib/router";
import type { Setup } from "@/lib/types";
import { Button } from "@/ui/button";
import { Check, Field } from "@/ui/field";
import { Problem } from "@/ui/problem";

import { PlanView } from "./plan-view";

interface Draft extends BudgetDraft {
  rounds: string;
  seed: string;
  concurrency: string;
  baseline: boolean;
  review: boolean;
}

/** Asks for a ticker and says what a run would take before anything is spent. */
export function TickerForm({ setup }: { setup: Setup }): ReactElement {
  const [ticker, setTicker] = useState("");
  const [draft, setDraft] = useState<Draft>({
    rounds: String(setup.config.rounds),
    seed: "",
    concurrency: String(setup.concurrency),
    ...NO_BUDGET,
    baseline: false,
    review: false,
  });
  const { busy, error, run: act } = useAction();
  const change = (it: Partial<Draft>): void => setDraft({ ...draft, ...it });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    act(async () => {
      const started = await api.analyze({
        ticker: ticker.trim().toUpperCase(),
        baseline: draft.baseline,
        review: draft.review,
        ...number("rounds", draft.rounds),
        ...number("seed", draft.seed),
        ...number("concurrency", draft.concurrency),
        ...budget(draft),
      });
      go(`/runs/${started.analysis_id}`);
    });
  };
  return (
    <form
      onSubmit={submit}
      aria-label="New run"
      className="overflow-hidden rounded-xl border border-line bg-panel shadow-(--shadow)"
    >
      <div className="p-5 sm:p-6">
        <label htmlFor="ticker" className="text-sm font-medium">
          Ticker
        </label>
        <div className="mt-1.5 flex gap-2">
          <input
            id="ticker"
            required
            autoComplete="off"
            autoCapitalize="characters"
            spellCheck={false}
            maxLength={12}
            placeholder="NVDA"
            value={ticker}
            aria-describedby="ticker-hint"
            onChange={(event) => setTicker(event.target.value)}
            className="h-11 min-w-0 flex-1 rounded-md border border-edge bg-panel px-3 font-mono text-lg uppercase placeholder:text-dim"
          />
          <Button type="submit" look="solid" size="lg" disabled={busy || ticker.trim() === ""}>
            {busy ? "Starting…" : "Run"} <ArrowRight aria-hidden />
          </Button>
        </div>
        <p id="ticker-hint" className="mt-1.5 text-[13px] text-dim">
          {hint(setup)}
        </p>
        {error !== null && (
          <div className="mt-3">
            <Problem title="The run was not started" error={error} />
          </div>
        )}
        <details
          className="mt-4"
          onInvalidCapture={(event) => {
            // What is wrong has to be seen before it can be put right.
            event.currentTarget.open = true;
          }}
        >
          <summary className="text-sm font-medium text-accent">Options</summary>
          <div className="mt-3 grid grid-cols-2 gap-x-4 gap-y-3 sm:grid-cols-3">
            <Field
              label="Rounds"
              type="number"
              min={1}
              max={50}
              value={draft.rounds}
              onChange={(it) => change({ rounds: it.target.value })}
            />
            <Field
              label="Debates at once"
              type="number"
              min={1}
              max={15}
              value={draft.concurrency}
              onChange={(it) => change({ concurrency: it.target.value })}
            />
            <Field
              label="Seed"
              type="number"
              min={0}
              placeholder="0"
              value={draft.seed}
              onChange={(it) => change({ seed: it.target.value })}
            />
            <BudgetFields draft={draft} onChange={change} />
          </div>
          <div className="mt-4 grid gap-3 sm:grid-cols-2">
            <Check
              label="Score before the debates too"
              hint="Shows what the debates changed."
              checked={draft.baseline}
              onChange={(it) => change({ baseline: it.target.checked })}
            />
            <Check
              label="Review the moves first"
              hint="The run waits until you have dropped, edited or added moves."
              checked={draft.review}
              onChange={(it) => change({ review: it.target.checked })}
            />
          </div>
        </details>
      </div>
      <PlanView
        rounds={draft.rounds}
        concurrency={draft.concurrency}
        baseline={draft.baseline}
        scripted={setup.provider === "scripted"}
      />
    </form>
  );
}

function hint(setup: Setup): string {
  const data: Record<string, string> = {
    synthetic: "The data is invented from the ticker and says nothing about the real company.",
    edgar: "The data is what the company filed with the SEC.",
    dir: "The data is read from your own files.",
  };
  const speaker =
    setup.provider === "scripted"
      ? "A scripted model speaks; nothing is paid."
      : `${setup.model ?? setup.provider} speaks.`;
  return `${data[setup.data] ?? ""} ${speaker}`.trim();
}
