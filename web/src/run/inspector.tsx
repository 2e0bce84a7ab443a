import { type ReactElement, useEffect, useState } from "react";

import { api } from "@/lib/api";
import { words } from "@/lib/format";
import type { Run } from "@/lib/types";
import { Document } from "@/text/document";
import { Badge } from "@/ui/badge";
import { STATUS_WORDS, WorkIcon } from "@/ui/status";

import { type RunView, emptyDebate } from "./view";

interface Props {
  run: Run;
  view: RunView;
  selected: string;
  onAgent: (id: string) => void;
  onDebate: (move: string) => void;
}

const LAYER_TEXTS: Record<string, string> = {
  "0": "Two writers turn the company’s numbers and what is said about it into two documents.",
  "1": "Two readers draw numbered findings from the documents. Everything later cites them.",
  "2": "Five analysts, each with a lens of their own, propose a move of low, medium and high risk.",
  sandbox: "The critic attacks every move in a sandbox of its own; the decision makers defend it and then score it.",
  rank: "Moves are ranked by the sum of their scores; those without a score stand apart.",
};

/** What a layer or an agent is, how it stands, and what it wrote. */
export function Inspector({ run, view, selected, onAgent, onDebate }: Props): ReactElement {
  const { synthesizers, inferences, analysts } = run.config;
  const people = [...synthesizers, ...inferences, ...analysts];
  const person = people.find((it) => it.id === selected);
  if (person) return <Agent run={run} view={view} id={person.id} onDebate={onDebate} />;
  const members = { "0": synthesizers, "1": inferences, "2": analysts }[selected];
  return (
    <div className="space-y-3 text-sm">
      <p>{LAYER_TEXTS[selected]}</p>
      {members && (
        <ul className="divide-y divide-line rounded-lg border border-line">
          {members.map((it) => {
            const agent = view.agents[it.id];
            return (
              <li key={it.id}>
                <button
                  type="button"
                  onClick={() => onAgent(it.id)}
                  className="flex w-full items-center gap-2.5 px-3 py-2 text-left hover:bg-sunk"
                >
                  <WorkIcon status={agent?.status ?? "idle"} />
                  <span className="flex-1">{it.name}</span>
                  <span className="font-mono text-xs text-dim">
                    {agent?.outputs.join(", ") || STATUS_WORDS[agent?.status ?? "idle"]}
                  </span>
                </button>
              </li>
            );
          })}
        </ul>
      )}
      {selected === "sandbox" && <Sandboxes view={view} />}
    </div>
  );
}

function Sandboxes({ view }: { view: RunView }): ReactElement | null {
  const ready = Object.values(view.debates).filter((it) => it.backend !== null);
  const backends = new Map(ready.map((it) => [it.backend!, it.isolated]));
  if (ready.length === 0) return null;
  return (
    <p className="flex flex-wrap items-center gap-2">
      Debates ran in
      {[...backends].map(([backend, isolated]) => (
        <Badge key={backend} tone={isolated ? "good" : "warn"}>
          {backend}
          {isolated ? ", isolated" : ", not isolated"}
        </Badge>
      ))}
    </p>
  );
}

function Agent({
  run,
  view,
  id,
  onDebate,
}: {
  run: Run;
  view: RunView;
  id: string;
  onDebate: (move: string) => void;
}): ReactElement {
  const agent = view.agents[id];
  const analyst = run.config.analysts.find((it) => it.id === id);
  const status = agent?.status ?? "idle";
  return (
    <div className="space-y-3 text-sm">
      <p className="flex items-center gap-2">
        <WorkIcon status={status} /> {STATUS_WORDS[status]}{" "}
        <span className="font-mono text-xs text-dim">{words(id)}</span>
      </p>
      {agent?.reason && <p className="rounded-md bg-bad-soft px-3 py-2 text-bad">{agent.reason}</p>}
      {analyst && (
        <ul className="space-y-1.5">
          {analyst.moves.map((move) => {
            const debate = view.debates[move] ?? emptyDebate(move);
            return (
              <li key={move}>
                <button
                  type="button"
                  onClick={() => onDebate(move)}
                  className="flex w-full items-center gap-2.5 rounded-lg border border-line px-3 py-2 text-left hover:border-accent"
                >
                  <WorkIcon status={debate.status} />
                  <span className="font-mono text-xs text-dim">{move}</span>
                  <span className="flex-1">{debate.title || "its title is told when its debate begins"}</span>
                  <b className="tabular-nums">{debate.score ?? ""}</b>
                </button>
              </li>
            );
          })}
        </ul>
      )}
      {!analyst &&
        status === "done" &&
        agent?.outputs.map((it) => <Output key={it} run={run.id} name={it} done={run.status === "complete"} />)}
    </div>
  );
}

/** A document that an agent wrote, as far as it is there already. */
function Output({ run, name, done }: { run: string; name: string; done: boolean }): ReactElement {
  const file = name.endsWith(".md") ? name : `${name}.md`;
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    api.fileIfThere(run, file, stop.signal).then(setText, () => setText(null));
    return () => stop.abort();
  }, [run, file, done]);
  if (text === null) return <p className="text-dim">It wrote {file}, which can be read when the run is complete.</p>;
  return (
    <details className="rounded-lg border border-line" open>
      <summary className="px-3 py-2 font-medium">{file}</summary>
      <div className="max-h-96 overflow-auto border-t border-line p-3" role="region" aria-label={file} tabIndex={0}>
        <Document text={text} />
      </div>
    </details>
  );
}
