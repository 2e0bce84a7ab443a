import dagre from "@dagrejs/dagre";
import { type ReactElement, useMemo } from "react";

import { words } from "@/lib/format";
import type { Drawing } from "@/lib/types";
import type { DebateView } from "@/run/view";

const NODE = { width: 104, height: 26 };

interface Props {
  drawing: Drawing;
  debate: DebateView;
  rounds: number;
  baseline: boolean;
}

/** Returns the active node of the debate graph. */
function activeNode(debate: DebateView, rounds: number, baseline: boolean): string | null {
  if (debate.status !== "running") return null;
  if (debate.step === null) return baseline ? "score_before" : "critic_round_1";
  if (debate.step === "makers") return "dm_respond";
  if (debate.step === "answered" && debate.round >= rounds) return "score_move";
  const round = debate.step === "answered" ? debate.round + 1 : debate.round;
  return round > 1 ? "critic_individual" : "critic_round_1";
}

const NAMES: Record<string, string> = {
  critic_round_1: "critic opens",
  critic_individual: "critic replies",
  dm_respond: "board answers",
  score_move: "board scores",
  score_before: "initial scores",
};

/** The compiled graph of a debate with the active node highlighted. */
export function DebateMap({ drawing, debate, rounds, baseline }: Props): ReactElement {
  const { top, width, height, nodes, edges } = useMemo(() => layOut(drawing), [drawing]);
  const active = activeNode(debate, rounds, baseline);
  const step = active ? (NAMES[active] ?? words(active)) : debate.status === "done" ? "done" : "idle";
  return (
    <figure className="max-w-full basis-[34rem]">
      <svg
        role="img"
        aria-label={`Graph of the debate, current step: ${step}`}
        viewBox={`0 ${top} ${width} ${height}`}
        className="w-full max-w-[38rem]"
      >
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
            <path d="M0 0L8 4L0 8z" fill="var(--edge)" />
          </marker>
        </defs>
        {edges.map((it) => (
          <path
            key={it.id}
            d={it.path}
            fill="none"
            stroke="var(--edge)"
            strokeDasharray={it.conditional ? "4 3" : undefined}
            markerEnd="url(#tip)"
          />
        ))}
        {nodes.map((it) => {
          const on = it.id === active;
          return (
            <g key={it.id} transform={`translate(${it.x - it.width / 2} ${it.y - it.height / 2})`}>
              <rect
                width={it.width}
                height={it.height}
                rx={it.end ? it.height / 2 : 6}
                fill={on ? "var(--accent)" : "var(--panel)"}
                stroke={on ? "var(--accent)" : "var(--edge)"}
              />
              <text
                x={it.width / 2}
                y={it.height / 2 + 3.5}
                textAnchor="middle"
                fontSize={10.5}
                fontWeight={on ? 600 : 450}
                fill={on ? "var(--on-accent)" : "var(--ink)"}
              >
                {it.end ? it.id.replaceAll("_", "") : (NAMES[it.id] ?? words(it.id))}
              </text>
            </g>
          );
        })}
      </svg>
    </figure>
  );
}

interface Placed {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
  end: boolean;
}

function layOut(drawing: Drawing): {
  top: number;
  width: number;
  height: number;
  nodes: Placed[];
  edges: { id: string; path: string; conditional: boolean }[];
} {
  const graph = new dagre.graphlib.Graph().setDefaultEdgeLabel(() => ({}));
  graph.setGraph({ rankdir: "LR", ranksep: 26, nodesep: 12, marginx: 6, marginy: 6 });
  for (const { id, type } of drawing.nodes) {
    const end = type !== "node";
    graph.setNode(id, { id, end, ...(end ? { width: 40, height: 20 } : NODE) });
  }
  for (const { source, target } of drawing.edges) graph.setEdge(source, target);
  dagre.layout(graph);
  const { width, height } = graph.graph() as { width: number; height: number };
  const edges = drawing.edges.map(({ source, target, conditional }) => {
    const { points } = graph.edge(source, target) as { points: { x: number; y: number }[] };
    return { id: `${source}-${target}`, points, path: smooth(points), conditional };
  });
  // The size of the graph does not include edges that pass above or below all nodes.
  const heights = edges.flatMap((it) => it.points.map(({ y }) => y));
  const [top, bottom] = [Math.min(0, ...heights) - 2, Math.max(height, ...heights) + 2];
  return {
    top,
    width,
    height: bottom - top,
    nodes: graph.nodes().map((it) => graph.node(it) as unknown as Placed),
    edges,
  };
}

/** Draws a curve from the first to the last point, bending at the points between. */
function smooth(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first || rest.length === 0) return "";
  const last = rest.at(-1)!;
  const bends = rest.slice(0, -1).map((it, idx) => {
    const next = rest[idx + 1]!;
    const [x, y] = idx === rest.length - 2 ? [last.x, last.y] : [(it.x + next.x) / 2, (it.y + next.y) / 2];
    return `Q${it.x} ${it.y} ${x} ${y}`;
  });
  return `M${first.x} ${first.y}${bends.length > 0 ? bends.join("") : `L${last.x} ${last.y}`}`;
}
