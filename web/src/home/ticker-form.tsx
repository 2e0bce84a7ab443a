import { ArrowRight } from "lucide-react";
import { type FormEvent, type ReactElement, useState } from "react";

import { BudgetFields, type BudgetDraft, NO_BUDGET, budget, number } from "@/actions/budget";
import { useAction } from "@/actions/use-action";
import { api } from "@/lib/api";
import { navigate } from "@/lib/router";
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

/** Form for a new run, with an estimate of its cost. */
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
      navigate(`/runs/${started.analysis_id}`);
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
        {setup.data !== "dir" && (
          <p className="mt-2 flex flex-wrap items-center gap-2 text-[13px] text-dim">
            {setup.data === "included" ? "Filed figures:" : "Examples:"}
            {setup.included_tickers.map((it) => (
              <Button key={it} type="button" size="sm" onClick={() => setTicker(it)}>
                {it}
              </Button>
            ))}
          </p>
        )}
        {error !== null && (
          <div className="mt-3">
            <Problem title="Could not start the run" error={error} />
          </div>
        )}
        <details
          className="mt-4"
          onInvalidCapture={(event) => {
            // Show the invalid field.
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
              label="Concurrent debates"
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
              label="Also score before the debates"
              hint="Shows the effect of the debates."
              checked={draft.baseline}
              onChange={(it) => change({ baseline: it.target.checked })}
            />
            <Check
              label="Review the moves first"
              hint="The run pauses so that you can drop, edit or add moves."
              checked={draft.review}
              onChange={(it) => change({ review: it.target.checked })}
            />
          </div>
        </details>
      </div>
      <PlanView
        config={setup.config}
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
    included: "The program includes the SEC filings of the companies below. Other companies are invented.",
    synthetic: "The data is generated from the ticker and does not describe the real company.",
    edgar: "The data comes from the company’s SEC filings.",
    dir: "The data comes from your own files.",
  };
  const speaker =
    setup.provider === "scripted"
      ? "A scripted model answers; the run is free of charge."
      : `Model: ${setup.model ?? setup.provider}.`;
  return `${data[setup.data] ?? ""} ${speaker}`.trim();
}
