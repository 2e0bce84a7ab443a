import { ArrowLeft } from "lucide-react";
import type { ReactElement } from "react";

import { PipelineGraph } from "@/graph/pipeline-graph";
import { STAGES } from "@/graph/scene";
import { makerColor, shortName, writers } from "@/lib/people";
import type { Drawings, Run } from "@/lib/types";
import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";

import { Inspector } from "./inspector";
import { Leaderboard } from "./leaderboard";
import { Lines } from "./lines-list";
import { Now } from "./now";
import type { RunView } from "./view";

interface Props {
  run: Run;
  view: RunView;
  moves: string[];
  drawings: Drawings | null;
  /** Files of the run so far. */
  files: readonly string[];
  selected: string | null;
  onSelect: (id: string | null) => void;
  onDebate: (move: string) => void;
}

export function PipelineTab(props: Props): ReactElement {
  const { run, view, moves, drawings, files, selected, onSelect, onDebate } = props;
  const name = selected && (nameOfStage(selected) ?? writers(run.config).find((it) => it.id === selected)?.name);
  const openAgent = (id: string): void => {
    onSelect(id);
    document.getElementById("focus")?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className="space-y-4">
      <section
        aria-labelledby="pipeline-title"
        className="overflow-hidden rounded-xl border border-line bg-panel shadow-(--shadow)"
      >
        {drawings ? (
          <PipelineGraph
            drawing={drawings.pipeline}
            run={run}
            view={view}
            moves={moves}
            selected={selected}
            onStage={onSelect}
            openAgent={openAgent}
            openDebate={onDebate}
          />
        ) : (
          <div className="h-[480px]" />
        )}
      </section>
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_24rem]">
        <div className="space-y-4">
          <Panel
            id="focus"
            title={name ?? "In progress"}
            aside={
              name && (
                <Button look="ghost" onClick={() => onSelect(null)}>
                  <ArrowLeft aria-hidden /> Back to progress
                </Button>
              )
            }
          >
            {name && selected ? (
              <Inspector
                run={run}
                view={view}
                moves={moves}
                files={files}
                selected={selected}
                onAgent={onSelect}
                onDebate={onDebate}
              />
            ) : (
              <Now run={run} view={view} onDebate={onDebate} />
            )}
          </Panel>
          <Panel folds id="lines" title="Recent events" inner="px-4 py-2">
            <Lines view={view} />
          </Panel>
        </div>
        <Panel id="board" title="Leaderboard" inner="p-0" aside={<Legend run={run} />}>
          <Leaderboard run={run} view={view} moves={moves} onOpen={onDebate} />
        </Panel>
      </div>
    </div>
  );
}

function nameOfStage(id: string): string | undefined {
  return (STAGES as Record<string, string>)[id];
}

function Legend({ run }: { run: Run }): ReactElement {
  return (
    <ul className="flex gap-3 text-xs text-dim" aria-label="Colours">
      {run.config.decision_makers.map((it, idx) => (
        <li key={it.id} className="flex items-center gap-1" title={it.name}>
          <span aria-hidden className="size-2 rounded-full" style={{ background: makerColor(idx) }} /> {shortName(it)}
        </li>
      ))}
    </ul>
  );
}
