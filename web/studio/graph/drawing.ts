/** The drawing of a graph with some of its subgraphs opened. */

import type { Drawing } from "@studio/api/types";

export interface GraphNode {
  id: string;
  /** Name inside its graph. */
  name: string;
  /** Id of the opened subgraph that contains the node. */
  parent: string | null;
  kind: "start" | "end" | "node" | "closed subgraph" | "open subgraph";
  /** Place in which a subgraph runs, such as `sandbox`, if it is not the process of its parent. */
  runsIn: string | null;
}

export interface GraphEdge {
  id: string;
  source: string;
  target: string;
  conditional: boolean;
  label: string | null;
}

export interface GraphPicture {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

/** Returns the ids of all subgraphs. The id of a node in a subgraph is the id of the subgraph, a colon and its name. */
export function subgraphsOf(drawing: Drawing): string[] {
  return [...new Set(drawing.nodes.flatMap((it) => ancestors(it.id)))];
}

/** Returns the ids of the subgraphs that contain a node, outermost first. */
function ancestors(id: string): string[] {
  const parts = id.split(":");
  return parts.slice(0, -1).map((_, at) => parts.slice(0, at + 1).join(":"));
}

/** Returns the picture in which only the subgraphs in `opened` show their nodes. */
export function picture(drawing: Drawing, opened: ReadonlySet<string>): GraphPicture {
  const subgraphs = new Set(subgraphsOf(drawing));
  const nodes = new Map<string, GraphNode>();
  const shownAs = (id: string): string => ancestors(id).find((it) => !opened.has(it)) ?? id;
  const add = (id: string): void => {
    if (nodes.has(id)) return;
    const parent = ancestors(id).at(-1) ?? null;
    if (parent !== null) add(parent);
    const [name, runsIn] = [id.split(":").at(-1)!, drawing.runs_in?.[id] ?? null];
    nodes.set(id, { id, name, parent, kind: kindOf(id, subgraphs, opened), runsIn });
  };
  for (const { id } of drawing.nodes) add(shownAs(id));
  const edges = new Map<string, GraphEdge>();
  for (const edge of drawing.edges) {
    const [source, target] = [shownAs(edge.source), shownAs(edge.target)];
    // An edge inside a closed subgraph is hidden; an edge from a node to itself is not.
    if (source === target && edge.source !== edge.target) continue;
    const id = `${source} → ${target}`;
    const known = edges.get(id);
    edges.set(id, {
      id,
      source,
      target,
      conditional: (known?.conditional ?? true) && edge.conditional === true,
      label: known?.label ?? edge.data ?? null,
    });
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

function kindOf(id: string, subgraphs: ReadonlySet<string>, opened: ReadonlySet<string>): GraphNode["kind"] {
  if (id === "__start__") return "start";
  if (id === "__end__") return "end";
  if (!subgraphs.has(id)) return "node";
  return opened.has(id) ? "open subgraph" : "closed subgraph";
}
