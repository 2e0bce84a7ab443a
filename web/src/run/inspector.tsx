import type { ReactElement } from "react";

import { api } from "@/lib/api";
import { words } from "@/lib/format";
import { levelText } from "@/lib/isolation";
import { writers } from "@/lib/people";
import type { Run } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { Document } from "@/text/document";
import { Badge } from "@/ui/badge";
import { Problem } from "@/ui/problem";
import { STATUS_WORDS, WorkIcon } from "@/ui/status";

import { Calls } from "./calls";
import { titleOf } from "./titles";
import { type RunView, emptyDebate } from "./view";

interface Props {
  run: Run;
  view: RunView;
  /** Existing or planned moves. */
  moves: readonly string[];
  /** Files of the run so far. */
  files: readonly string[];
  selected: string;
  onAgent: (id: string) => void;
  onDebate: (move: string) => void;
}

const LAYER_TEXTS: Record<string, string> = {
  "0": "Two synthesizers compile the company’s figures and the news about it into two documents.",
  "1": "Two agents derive numbered findings from the documents. All later steps cite them.",
  "2": "Each analyst proposes low-, medium- and high-risk moves from a different perspective.",
  sandbox: "The critic challenges every move in its own sandbox; the decision makers defend it and then score it.",
  rank: "Moves are ranked by total score; moves without a score are listed separately.",
};

/** Details of a layer or agent: description, status and output. */
export function Inspector(props: Props): ReactElement {
  const { run, view, selected, onAgent } = props;
  const { synthesizers, inferences, analysts } = run.config;
  if (writers(run.config).some((it) => it.id === selected)) return <Agent {...props} />;
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
  const backends = new Map(ready.map((it) => [it.backend!, it.isolation]));
  if (ready.length === 0) return null;
  return (
    <p className="flex flex-wrap items-center gap-2">
      Debates ran with
      {[...backends].map(([backend, isolation]) => (
        <Badge key={backend} tone={isolation === "off" ? "warn" : "good"}>
          {backend}, {levelText(isolation)}
        </Badge>
      ))}
    </p>
  );
}

function Agent({ run, view, moves, files, selected: id, onDebate }: Props): ReactElement {
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
          {analyst.moves
            .filter((it) => moves.includes(it))
            .map((move) => {
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
                    <span className="flex-1">{titleOf(move, run, view) || "not proposed yet"}</span>
                    <b className="tabular-nums">{debate.score ?? ""}</b>
                  </button>
                </li>
              );
            })}
        </ul>
      )}
      {agent?.outputs
        .map((it) => (it.endsWith(".md") ? it : `${it}.md`))
        .filter((it) => files.includes(it))
        .map((it) => (
          <Output key={it} run={run.id} file={it} open={!analyst} />
        ))}
      {status !== "idle" && <Calls run={run.id} agent={id} move={null} version={status} />}
    </div>
  );
}

/** A document written by an agent. */
function Output({ run, file, open }: { run: string; file: string; open: boolean }): ReactElement {
  const { value: text, error } = useFetched(`${run} ${file}`, (signal) => api.file(run, file, signal));
  return (
    <details className="rounded-lg border border-line" open={open}>
      <summary className="px-3 py-2 font-medium">{file}</summary>
      <div className="max-h-96 overflow-auto border-t border-line p-3" role="region" aria-label={file} tabIndex={0}>
        {error !== null && <Problem title="Could not load the document" error={error} />}
        {text !== null && <Document text={text} />}
      </div>
    </details>
  );
}
