/**
 * Layout of the pipeline graph. Stages and their edges come from the graph compiled by the server; the members of a
 * stage come from the configuration of the run.
 */

import dagre from "@dagrejs/dagre";

import type { Config, Drawing } from "@/lib/types";

import type { Box } from "./box";

export type StageId = "0" | "1" | "2" | "sandbox" | "rank";

interface Member extends Box {
  id: string;
  name: string;
  kind: "agent" | "debate";
}

interface Stage extends Box {
  id: StageId;
  title: string;
  members: Member[];
}

export interface Arrow {
  id: string;
  from: string;
  to: string;
}

export interface Scene {
  width: number;
  height: number;
  stages: Stage[];
  /** Edges between stages. */
  stageEdges: Arrow[];
  /** Edges between members of stages. */
  memberEdges: Arrow[];
}

export const HEAD = 40;
const PAD = 12;
const GAP = 10;
const WIDE = { width: 178, height: 78 };
const DENSE = { width: 132, height: 92 };
const NARROW = { width: 118, height: 78 };

/** Layout: left to right for a desktop or a small screen, or top to bottom with or without the members of the stages. */
type Layout = "wide" | "dense" | "narrow" | "folded";

const SIZES = { wide: WIDE, dense: DENSE, narrow: NARROW, folded: NARROW };
const STAGE_GAPS = { wide: 44, dense: 26, narrow: 34, folded: 22 };
const isHorizontal = (layout: Layout): boolean => layout === "wide" || layout === "dense";

/** Titles of the stages. */
export const STAGES: Record<StageId, string> = {
  "0": "Data",
  "1": "Findings",
  "2": "Moves",
  sandbox: "Debates",
  rank: "Ranking",
};

/** Returns the stage that a node of the compiled graph belongs to. */
function stageOf(node: string): StageId | null {
  if (node.startsWith("layer_0")) return "0";
  if (node.startsWith("layer_1") || node.startsWith("inference")) return "1";
  if (node.startsWith("layer_2") || node.startsWith("analyst")) return "2";
  if (node.startsWith("sandbox")) return "sandbox";
  return node.startsWith("rank") ? "rank" : null;
}

type Cell = Pick<Member, "id" | "name" | "kind">;

function cells(config: Config, moves: readonly string[]): Record<StageId, Cell[]> {
  const agents = (people: { id: string; name: string }[]): Cell[] =>
    people.map(({ id, name }) => ({ id, name, kind: "agent" }));
  return {
    "0": agents(config.synthesizers),
    "1": agents(config.inferences),
    "2": agents(config.analysts),
    sandbox: moves.map((id) => ({ id, name: id, kind: "debate" })),
    rank: [{ id: "ranking", name: "Ranking", kind: "agent" }],
  };
}

/** Computes the layout. */
export function scene(drawing: Drawing, config: Config, moves: readonly string[], layout: Layout): Scene {
  const membersOf = cells(config, moves);
  const wide = isHorizontal(layout);
  const present = new Set(drawing.nodes.map((it) => stageOf(it.id)).filter((it) => it !== null));
  const graph = new dagre.graphlib.Graph().setDefaultEdgeLabel(() => ({}));
  graph.setGraph({ rankdir: wide ? "LR" : "TB", ranksep: STAGE_GAPS[layout], nodesep: 20 });
  for (const id of present) graph.setNode(id, { ...extent(id, membersOf[id].length, layout) });
  const stageEdges: Arrow[] = [];
  for (const { source, target } of drawing.edges) {
    const [a, b] = [stageOf(source), stageOf(target)];
    if (a === null || b === null || a === b || graph.hasEdge(a, b)) continue;
    graph.setEdge(a, b);
    stageEdges.push({ id: `${a}-${b}`, from: a, to: b });
  }
  dagre.layout(graph);
  const stages = [...present].map((id): Stage => {
    const { x, y, width, height } = graph.node(id) as Box;
    const shown = layout === "folded" ? [] : membersOf[id];
    const members = shown.map((it, idx) => ({ ...it, ...cellBox(idx, columns(id, layout), layout) }));
    return { id, title: STAGES[id], x: x - width / 2, y: y - height / 2, width, height, members };
  });
  const { width = 0, height = 0 } = graph.graph();
  return { width, height, stages, stageEdges, memberEdges: wide ? memberEdges(config, moves) : [] };
}

function columns(stage: StageId, layout: Layout): number {
  if (stage === "rank") return 1;
  if (isHorizontal(layout)) return stage === "sandbox" ? 3 : 1;
  return stage === "0" || stage === "1" ? 2 : 3;
}

function extent(stage: StageId, count: number, layout: Layout): { width: number; height: number } {
  const { width, height } = SIZES[layout];
  const span = (across: number): number => across * width + (across - 1) * GAP + 2 * PAD;
  if (layout === "folded") return { width: span(3), height: HEAD };
  const down = Math.max(1, Math.ceil(count / columns(stage, layout)));
  const inner = stage === "rank" ? 2.2 * height : down * height + (down - 1) * GAP;
  return {
    width: stage === "rank" && layout === "narrow" ? span(3) : span(columns(stage, layout)),
    height: HEAD + inner + PAD,
  };
}

function cellBox(idx: number, across: number, layout: Layout): Box {
  const { width, height } = SIZES[layout];
  const [column, row] = [idx % across, Math.floor(idx / across)];
  return { x: PAD + column * (width + GAP), y: HEAD + row * (height + GAP), width, height };
}

function memberEdges(config: Config, moves: readonly string[]): Arrow[] {
  const arrow = (from: string, to: string): Arrow => ({ id: `${from}-${to}`, from, to });
  const documents = config.inferences.flatMap((it, idx) => {
    const source = config.synthesizers[idx];
    return source ? [arrow(source.id, it.id)] : [];
  });
  const findings = config.inferences.flatMap((a) => config.analysts.map((b) => arrow(a.id, b.id)));
  const proposals = config.analysts.flatMap((it) => {
    const first = it.moves.find((move) => moves.includes(move));
    return first ? [arrow(it.id, first)] : [];
  });
  return [...documents, ...findings, ...proposals];
}
