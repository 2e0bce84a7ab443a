import { type Edge, type Node, ReactFlow, ReactFlowProvider, useReactFlow, useStore } from "@xyflow/react";
import { Minus, Plus } from "lucide-react";
import { type ReactElement, useEffect, useMemo, useState } from "react";

import type { Drawing } from "@/lib/types";
import { useMedia } from "@/lib/media";
import type { Status } from "@/run/view";
import { Button } from "@/ui/button";

import { GraphContext, type GraphContextValue } from "./context";
import { arrowState, stageState } from "./live";
import { AgentNode, DebateNode, FAR_ZOOM, RankingNode, StageNode, isFar } from "./nodes";
import { placed } from "./placed";
import { type Arrow, HEAD, type Scene, type StageId, scene } from "./scene";

const TYPES = { stage: StageNode, agent: AgentNode, debate: DebateNode, ranking: RankingNode };

interface Props extends Omit<GraphContextValue, "openStage"> {
  drawing: Drawing;
  onStage: (stage: string | null) => void;
}

/** The live pipeline graph: layers when zoomed out, agents and debates when zoomed in. */
export function PipelineGraph(props: Props): ReactElement {
  return (
    <ReactFlowProvider>
      <Canvas {...props} />
    </ReactFlowProvider>
  );
}

function Canvas({ drawing, onStage, ...context }: Props): ReactElement {
  const { run, moves, selected } = context;
  const narrow = useMedia("(max-width: 767px)");
  const dense = useMedia("(max-width: 1199px)");
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const flow = useReactFlow();
  const [folded, setFolded] = useState(true);
  const layout = narrow ? (folded ? "folded" : "narrow") : dense ? "dense" : "wide";
  const duration = still ? 0 : 450;
  const key = moves.join();
  const picture = useMemo(() => scene(drawing, run.config, key.split(","), layout), [drawing, run.config, key, layout]);
  const nodes = useMemo(() => toNodes(picture, narrow), [picture, narrow]);
  const far = useStore(isFar);
  const edges = toEdges(picture, far, (id) => statusOf(id, context));

  const [shown, setShown] = useState<{ zoom: "agents" | "layers" }>({ zoom: "agents" });
  const zoomTo = (zoom: "agents" | "layers"): void => {
    setFolded(zoom === "layers");
    setShown({ zoom });
    if (stage) onStage(null);
  };
  const openStage = (stage: string): void => {
    onStage(stage);
    if (narrow) document.getElementById("focus")?.scrollIntoView();
  };
  // Zoom to the selected stage, even if a link selects it. Otherwise restore the chosen zoom level. Do so again when the
  // graph or the window width changes. Selecting an agent does not move the graph.
  const width = useStore((it) => it.width);
  const canvasHeight = useStore((state) => state.height);
  const picked = nodes.find((it) => it.id === selected);
  const [stage, setStage] = useState<string>();
  const pickedStage = picked?.parentId ? stage : picked?.id;
  if (pickedStage !== stage) setStage(pickedStage);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (stage && !narrow) {
        return void flow.fitView({ nodes: [{ id: stage }], padding: 0.08, maxZoom: 1.3, duration });
      }
      if (shown.zoom === "agents" || narrow) return void flow.fitView({ padding: 0.04, duration });
      const box = flow.getNodesBounds(nodes.filter((it) => it.type === "stage"));
      void flow.setCenter(box.x + box.width / 2, box.y + box.height / 2, { zoom: FAR_ZOOM * 0.97, duration });
    }, 60);
    return () => clearTimeout(timer);
  }, [flow, nodes, narrow, width, canvasHeight, shown, stage, duration]);

  // On a phone the graph has its natural height and does not intercept touch scrolling.
  const height = narrow ? { aspectRatio: `${picture.width} / ${picture.height}` } : { height: dense ? 470 : 410 };
  return (
    <GraphContext value={{ ...context, openStage }}>
      <header className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2">
        <h2 id="pipeline-title" className="text-sm font-semibold">
          Pipeline
        </h2>
        <div role="group" aria-label="Zoom" className="flex gap-1.5">
          <Button onClick={() => zoomTo("layers")}>Layers</Button>
          <Button onClick={() => zoomTo("agents")}>Agents</Button>
          {!narrow && (
            <>
              <Button
                size="icon"
                className="size-8"
                aria-label="Zoom out"
                onClick={() => void flow.zoomOut({ duration })}
              >
                <Minus aria-hidden />
              </Button>
              <Button
                size="icon"
                className="size-8"
                aria-label="Zoom in"
                onClick={() => void flow.zoomIn({ duration })}
              >
                <Plus aria-hidden />
              </Button>
            </>
          )}
        </div>
      </header>
      <div style={height} data-selected={selected ?? ""}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={TYPES}
          onInit={() => void flow.fitView({ padding: 0.04 })}
          minZoom={0.2}
          maxZoom={1.8}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          panOnDrag={!narrow}
          zoomOnPinch={!narrow}
          zoomOnScroll={false}
          zoomOnDoubleClick={false}
          zoomActivationKeyCode={narrow ? null : "Control"}
          preventScrolling={false}
          proOptions={{ hideAttribution: true }}
          aria-label="Pipeline: layers in order, with their agents"
        />
      </div>
    </GraphContext>
  );

  function statusOf(id: string, { run, view, moves }: Omit<GraphContextValue, "openStage">): Status {
    const stage = picture.stages.find((it) => it.id === id);
    if (stage) return stageState(stage.id, run.config, view, moves).status;
    return view.agents[id]?.status ?? view.debates[id]?.status ?? "idle";
  }
}

function toNodes(picture: Scene, narrow: boolean): Node[] {
  return picture.stages.flatMap((stage): Node[] => {
    const group: Node = {
      id: stage.id,
      type: "stage",
      ...placed(stage, narrow),
      data: { stage: stage.id, title: stage.title, narrow },
    };
    const members = stage.members.map((it): Node => ({
      id: it.id,
      type: stage.id === "rank" ? "ranking" : it.kind,
      parentId: stage.id,
      ...placed(
        stage.id === "rank" ? { ...it, width: stage.width - 24, height: stage.height - HEAD - 12 } : it,
        narrow,
      ),
      data: { id: it.id, name: it.name, narrow },
    }));
    return [group, ...members];
  });
}

function toEdges(picture: Scene, far: boolean, status: (id: string) => Status): Edge[] {
  const edge = (it: Arrow, z: number): Edge => ({
    id: it.id,
    source: it.from,
    target: it.to,
    className: `flow-edge-${arrowState(status(it.from), status(it.to))}`,
    zIndex: z,
    focusable: false,
  });
  if (far || picture.memberEdges.length === 0) return picture.stageEdges.map((it) => edge(it, 0));
  return [
    ...picture.stageEdges.filter(needsStageEdge).map((it) => edge(it, 0)),
    ...picture.memberEdges.map((it) => edge(it, 1)),
  ];
}

/** Returns whether to draw the edge between two stages. It is not drawn if there are edges between their members. */
function needsStageEdge(arrow: Arrow): boolean {
  const fine: StageId[] = ["1", "2", "sandbox"];
  return !fine.includes(arrow.to as StageId);
}
