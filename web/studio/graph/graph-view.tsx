import {
  type Edge,
  type EdgeProps,
  MarkerType,
  type Node,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { Maximize, Minus, Plus } from "lucide-react";
import { type ReactElement, useEffect, useMemo } from "react";

import { placed } from "@/graph/placed";
import { useMedia } from "@/lib/media";
import { Button } from "@/ui/button";

import { GraphContext, type GraphContextValue } from "./context";
import type { GraphPicture } from "./drawing";
import { type Layout, curve, layout } from "./layout";
import { StepNode, SubgraphNode } from "./nodes";
import { type NodeStatus, drawnStatus } from "./status";

const NODES = { step: StepNode, subgraph: SubgraphNode };
const EDGES = { routed: RoutedEdge };

interface Props extends GraphContextValue {
  picture: GraphPicture;
}

/** The graph with the status of every node. */
export function GraphView(props: Props): ReactElement {
  return (
    <ReactFlowProvider>
      <Canvas {...props} />
    </ReactFlowProvider>
  );
}

function Canvas({ picture, ...context }: Props): ReactElement {
  const narrow = useMedia("(max-width: 767px)");
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const flow = useReactFlow();
  const duration = still ? 0 : 300;
  const placement = useMemo(() => layout(picture, narrow ? "TB" : "LR"), [picture, narrow]);
  const nodes = useMemo(() => toNodes(placement), [placement]);
  const edges = toEdges(placement, (id) => drawnStatus(id, context.statuses));
  const width = useStore((it) => it.width);
  useEffect(() => {
    const timer = setTimeout(() => void flow.fitView({ padding: 0.08, maxZoom: 1.15, duration }), 40);
    return () => clearTimeout(timer);
  }, [flow, nodes, width, duration]);
  return (
    <GraphContext value={context}>
      <div className="relative" style={{ height: narrow ? Math.min(420, Math.max(220, placement.height)) : 300 }}>
        <div role="group" aria-label="Zoom" className="absolute top-2 right-2 z-10 flex gap-1">
          <ZoomButton label="Zoom out" icon={Minus} onClick={() => void flow.zoomOut({ duration })} />
          <ZoomButton label="Zoom in" icon={Plus} onClick={() => void flow.zoomIn({ duration })} />
          <ZoomButton
            label="Show the whole graph"
            icon={Maximize}
            onClick={() => void flow.fitView({ padding: 0.08, duration })}
          />
        </div>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODES}
          edgeTypes={EDGES}
          minZoom={0.15}
          maxZoom={2}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          zoomOnScroll={false}
          zoomOnDoubleClick={false}
          panOnDrag={!narrow}
          preventScrolling={false}
          proOptions={{ hideAttribution: true }}
          aria-label="Graph"
        />
      </div>
    </GraphContext>
  );
}

function ZoomButton({
  label,
  icon: Icon,
  onClick,
}: {
  label: string;
  icon: typeof Plus;
  onClick: () => void;
}): ReactElement {
  return (
    <Button size="icon" className="size-8" aria-label={label} title={label} onClick={onClick}>
      <Icon aria-hidden />
    </Button>
  );
}

function toNodes({ nodes }: Layout): Node[] {
  return nodes.map((it) => ({
    id: it.id,
    type: it.kind === "open subgraph" ? "subgraph" : "step",
    ...(it.parent !== null && { parentId: it.parent }),
    ...placed(it.box, true),
    data: { node: it },
  }));
}

function toEdges({ edges }: Layout, status: (id: string) => NodeStatus): Edge[] {
  return edges.map((it) => {
    const state = edgeState(status(it.source), status(it.target));
    const color = { live: "var(--accent)", done: "var(--good)", idle: "var(--edge)" }[state];
    return {
      id: it.id,
      type: "routed",
      source: it.source,
      target: it.target,
      className: `flow-edge-${state}`,
      data: { points: it.points, label: it.label, conditional: it.conditional },
      markerEnd: { type: MarkerType.ArrowClosed, color, width: 16, height: 16 },
      zIndex: 1,
      focusable: false,
    };
  });
}

function edgeState(from: NodeStatus, to: NodeStatus): "live" | "done" | "idle" {
  if (to === "running" && from !== "idle") return "live";
  return from === "done" && (to === "done" || to === "waiting" || to === "failed") ? "done" : "idle";
}

function RoutedEdge({ data, markerEnd }: EdgeProps): ReactElement {
  const { points, label, conditional } = data as {
    points: { x: number; y: number }[];
    label: string | null;
    conditional: boolean;
  };
  const middle = points[Math.floor(points.length / 2)];
  return (
    <>
      <path
        d={curve(points)}
        markerEnd={markerEnd}
        fill="none"
        className="react-flow__edge-path"
        {...(conditional && { strokeDasharray: "5 4" })}
      />
      {label !== null && middle && (
        <text x={middle.x} y={middle.y - 5} textAnchor="middle" fontSize={11} fill="var(--dim)">
          {label}
        </text>
      )}
    </>
  );
}
