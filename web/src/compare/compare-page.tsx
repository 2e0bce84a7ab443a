import { ArrowDown, ArrowUp } from "lucide-react";
import { type ReactElement, type ReactNode, useEffect } from "react";

import { api, comparison } from "@/lib/api";
import { count, dollars } from "@/lib/format";
import { usePageLocation } from "@/lib/router";
import type { RunDiff, Sides } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { Link } from "@/ui/link";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";

/** Comparison of two runs: settings, first difference, effect on the ranking, and cost. */
export function ComparePage(): ReactElement {
  const { query } = usePageLocation();
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const { value: diff, error } = useFetched(comparison(a, b), (signal) => api.compare(a, b, signal));
  useEffect(() => {
    document.title = "Comparison · Consulting";
  }, []);
  return (
    <div className="space-y-4">
      <header>
        <h1 className="text-2xl font-semibold tracking-tight">Comparison of two runs</h1>
        <p className="mt-1 flex flex-wrap gap-x-6 gap-y-1 font-mono text-[13px]">
          <Side name="A" id={a} /> <Side name="B" id={b} />
        </p>
      </header>
      {error !== null && <Problem title="Could not compare the runs" error={error} />}
      {!diff && error === null && <p className="py-10 text-center text-dim">Comparing…</p>}
      {diff && <Differences diff={diff} />}
    </div>
  );
}

function Side({ name, id }: { name: string; id: string }): ReactElement {
  return (
    <span>
      <b className="mr-1.5 font-sans text-dim">{name}</b>
      <Link href={`/runs/${encodeURIComponent(id)}`} className="text-accent underline underline-offset-2">
        {id}
      </Link>
    </span>
  );
}

function Differences({ diff }: { diff: RunDiff }): ReactElement {
  return (
    <>
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <Panel id="given" title="Differences in settings">
          {diff.settings.length === 0 ? (
            <p className="text-sm text-dim">None.</p>
          ) : (
            <ul className="space-y-3">
              {diff.settings.map((it) => (
                <li key={it.path}>
                  <p className="mb-1 font-mono text-[13px] font-medium">{it.path}</p>
                  <Pair a={it.values.a ?? "not set"} b={it.values.b ?? "not set"} />
                </li>
              ))}
            </ul>
          )}
        </Panel>
        <Panel id="apart" title="First difference">
          {diff.first ? (
            <>
              <p className="mb-2 font-mono text-[13px] font-medium">{diff.first.place}</p>
              <Pair a={diff.first.texts.a} b={diff.first.texts.b} />
            </>
          ) : (
            <p className="text-sm text-dim">None: both runs produced the same texts.</p>
          )}
        </Panel>
      </div>
      <Panel id="moved" title="Effect on the ranking" inner="p-0">
        {diff.moves.length === 0 ? (
          <p className="p-4 text-sm text-dim">None: all scores and ranks are the same.</p>
        ) : (
          <Moves diff={diff} />
        )}
      </Panel>
      <Panel id="costs" title="Cost">
        <Costs diff={diff} />
      </Panel>
    </>
  );
}

function Pair({ a, b }: Sides<string>): ReactElement {
  return (
    <dl className="grid gap-2 text-[13px] sm:grid-cols-2">
      {(["A", "B"] as const).map((it) => (
        <div key={it} className="rounded-md bg-sunk px-3 py-2">
          <dt className="text-xs font-semibold text-dim">{it}</dt>
          <dd className="whitespace-pre-wrap">{it === "A" ? a : b}</dd>
        </div>
      ))}
    </dl>
  );
}

const HEAD = "border-b border-line px-4 py-2 font-medium";

function Moves({ diff }: { diff: RunDiff }): ReactElement {
  const best = (it: Sides<number | null>): number => it.b ?? it.a ?? 999;
  return (
    <div className="overflow-x-auto" role="region" aria-label="Moves whose score or rank differs" tabIndex={0}>
      <table className="w-full text-sm tabular-nums">
        <thead className="text-left text-xs text-dim">
          <tr>
            <th scope="col" className={HEAD}>
              Move
            </th>
            <th scope="col" className={`${HEAD} text-right`}>
              Rank A → B
            </th>
            <th scope="col" className={`${HEAD} text-right`}>
              Score A → B
            </th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {diff.moves
            .toSorted((x, y) => best(x.rank) - best(y.rank))
            .map((it) => (
              <tr key={`${it.move_id} ${it.title}`}>
                <td className="px-4 py-2">
                  <span className="mr-2 font-mono text-xs text-dim">{it.move_id}</span>
                  {it.title}
                </td>
                <td className="px-4 py-2 text-right whitespace-nowrap">
                  <Change sides={it.rank} lowerIsBetter />
                </td>
                <td className="px-4 py-2 text-right whitespace-nowrap">
                  <Change sides={it.score} />
                </td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}

function Change({
  sides: { a, b },
  lowerIsBetter = false,
}: {
  sides: Sides<number | null>;
  lowerIsBetter?: boolean;
}): ReactElement {
  const by = a === null || b === null ? 0 : b - a;
  const better = lowerIsBetter ? by < 0 : by > 0;
  let arrow: ReactNode = null;
  if (by !== 0) {
    const Icon = better ? ArrowUp : ArrowDown;
    arrow = (
      <Icon
        aria-label={better ? "better" : "worse"}
        className={`ml-1 inline size-3.5 ${better ? "text-good" : "text-bad"}`}
      />
    );
  }
  return (
    <>
      {a ?? "none"} → <b className="font-semibold">{b ?? "none"}</b>
      {arrow}
    </>
  );
}

function Costs({ diff: { cost } }: { diff: RunDiff }): ReactElement {
  const rows: [string, (it: RunDiff["cost"]["a"]) => string][] = [
    ["Calls", (it) => count(it.calls)],
    ["Input tokens", (it) => count(it.input_tokens)],
    ["Output tokens", (it) => count(it.output_tokens)],
    ["Cost", (it) => dollars(it.dollars)],
  ];
  return (
    <table className="w-full max-w-md text-right text-sm tabular-nums">
      <thead className="text-xs text-dim">
        <tr>
          <th scope="col" className="sr-only">
            Figure
          </th>
          <th scope="col" className="font-medium">
            A
          </th>
          <th scope="col" className="font-medium">
            B
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, read]) => (
          <tr key={name}>
            <th scope="row" className="py-1 text-left font-normal text-dim">
              {name}
            </th>
            <td>{read(cost.a)}</td>
            <td>{read(cost.b)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
