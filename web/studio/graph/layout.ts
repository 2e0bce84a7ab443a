/** Positions of the nodes and edges of a picture. */

import dagre from "@dagrejs/dagre";

import type { Box } from "@/graph/box";

import type { GraphEdge, GraphNode, GraphPicture } from "./drawing";

export interface PlacedNode extends GraphNode {
  /** Position relative to the parent. */
  box: Box;
}

export interface PlacedEdge extends GraphEdge {
  points: { x: number; y: number }[];
}

export interface Layout {
  width: number;
  height: number;
  nodes: PlacedNode[];
  edges: PlacedEdge[];
}

const NODE_HEIGHT = 38;
const TERMINAL_WIDTH = 60;
const MIN_WIDTH = 84;
const MAX_WIDTH = 220;
/** Width of a character, and of the icon and padding of a node. */
const CHARACTER = 7.6;
const FRAME = 52;
/** Space for the title of an opened subgraph. */
export const TITLE = 34;

export function layout(picture: GraphPicture, direction: "TB" | "LR"): Layout {
  const graph = new dagre.graphlib.Graph({ compound: true, multigraph: false }).setDefaultEdgeLabel(() => ({}));
  graph.setGraph({ rankdir: direction, ranksep: 32, nodesep: 20, marginx: 8, marginy: 8 });
  for (const node of picture.nodes) {
    graph.setNode(node.id, node.kind === "open subgraph" ? {} : { width: widthOf(node), height: NODE_HEIGHT });
    if (node.parent !== null) graph.setParent(node.id, node.parent);
  }
  const containers = new Set(picture.nodes.filter((it) => it.kind === "open subgraph").map((it) => it.id));
  const drawable = picture.edges.filter((it) => !containers.has(it.source) && !containers.has(it.target));
  for (const edge of drawable) graph.setEdge(edge.source, edge.target, { width: labelWidth(edge), height: 14 });
  dagre.layout(graph);

  const absolute = new Map(picture.nodes.map((it) => [it.id, corner(graph.node(it.id) as Box, containers.has(it.id))]));
  const nodes = picture.nodes.map((node): PlacedNode => {
    const { x, y, width, height } = absolute.get(node.id)!;
    const outer = node.parent === null ? { x: 0, y: 0 } : absolute.get(node.parent)!;
    return { ...node, box: { x: x - outer.x, y: y - outer.y, width, height } };
  });
  const edges = drawable.map((it): PlacedEdge => ({ ...it, points: graph.edge(it.source, it.target).points ?? [] }));
  const { width = 0, height = 0 } = graph.graph();
  return { width, height: height + (containers.size > 0 ? TITLE : 0), nodes, edges };
}

function widthOf({ name, kind }: GraphNode): number {
  if (kind === "start" || kind === "end") return TERMINAL_WIDTH;
  return Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, name.length * CHARACTER + FRAME));
}

function labelWidth({ label }: GraphEdge): number {
  return label === null ? 0 : Math.min(160, label.length * 6.5 + 8);
}

/** Converts a box from its centre to its top left corner. An opened subgraph gets space for its title. */
function corner({ x, y, width, height }: Box, titled: boolean): Box {
  const title = titled ? TITLE : 0;
  return { x: x - width / 2, y: y - height / 2 - title / 2, width, height: height + title / 2 };
}

/** Returns the SVG path of a smooth curve through the bends of an edge. */
export function curve(points: readonly { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  const last = rest.at(-1);
  if (!last) return `M${first.x},${first.y}`;
  let path = `M${first.x},${first.y}`;
  for (let at = 0; at < rest.length - 1; at += 1) {
    const [bend, next] = [rest[at]!, rest[at + 1]!];
    const end = at === rest.length - 2 ? next : { x: (bend.x + next.x) / 2, y: (bend.y + next.y) / 2 };
    path += ` Q${bend.x},${bend.y} ${end.x},${end.y}`;
  }
  return rest.length === 1 ? `${path} L${last.x},${last.y}` : path;
}
