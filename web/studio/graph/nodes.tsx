import { Handle, type NodeProps, Position } from "@xyflow/react";
import { Box, Check, Circle, CircleDot, Hand, Layers, LoaderCircle, Octagon, TriangleAlert } from "lucide-react";
import type { ReactElement } from "react";

import { cn } from "@/lib/cn";

import { useGraph } from "./context";
import type { PlacedNode } from "./layout";
import { type NodeStatus, STATUS_WORDS, drawnStatus } from "./status";

const FRAME: Record<NodeStatus, string> = {
  idle: "border-line bg-panel",
  next: "border-accent/60 border-dashed bg-panel",
  running: "border-accent bg-accent-soft pulse",
  waiting: "border-warn bg-warn-soft",
  done: "border-good/50 bg-panel",
  failed: "border-bad bg-bad-soft",
};

const ICON: Record<NodeStatus, { icon: typeof Check; className: string }> = {
  idle: { icon: Circle, className: "text-dim" },
  next: { icon: CircleDot, className: "text-accent" },
  running: { icon: LoaderCircle, className: "text-accent animate-spin" },
  waiting: { icon: Hand, className: "text-warn" },
  done: { icon: Check, className: "text-good" },
  failed: { icon: TriangleAlert, className: "text-bad" },
};

export function StatusIcon({ status }: { status: NodeStatus }): ReactElement {
  const { icon: Icon, className } = ICON[status];
  return <Icon aria-hidden size={14} className={cn("shrink-0", className)} />;
}

/** The symbol of a subgraph. */
function SubgraphIcon({ node }: { node: PlacedNode }): ReactElement {
  const Icon = node.runsIn === null ? Layers : Box;
  return <Icon aria-hidden size={14} className="ml-auto shrink-0 text-dim" />;
}

/** Names the place in which a subgraph runs. */
function placeOf({ runsIn }: PlacedNode): string {
  return runsIn === null ? "" : `, runs in a ${runsIn}`;
}

function Handles(): ReactElement {
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
}

/** A node of the graph. Activating a closed subgraph opens it; activating another node sets a breakpoint. */
export function StepNode({ data }: NodeProps): ReactElement {
  const { statuses, breakpoints, onToggleBreakpoint, onToggleSubgraph } = useGraph();
  const { node } = data as { node: PlacedNode };
  if (node.kind === "start" || node.kind === "end") {
    return (
      <div className="flex size-full items-center justify-center rounded-full border border-line bg-sunk text-xs text-dim">
        <Handles />
        {node.kind}
      </div>
    );
  }
  const status = drawnStatus(node.id, statuses);
  const isSubgraph = node.kind === "closed subgraph";
  const isStop = breakpoints.has(node.id);
  const action = isSubgraph
    ? "Open the subgraph."
    : node.parent === null
      ? `${isStop ? "Remove the breakpoint" : "Set a breakpoint"}.`
      : "";
  const className = cn(
    "nopan pointer-events-auto flex size-full items-center gap-2 rounded-lg border px-3 text-left text-[13px] font-medium shadow-(--shadow) transition-colors",
    FRAME[status],
    isStop && "ring-2 ring-bad/50",
  );
  const content = (
    <>
      <StatusIcon status={status} />
      <span className="truncate">{node.name}</span>
      {isSubgraph && <SubgraphIcon node={node} />}
      {isStop && <Octagon aria-hidden size={14} className="ml-auto shrink-0 text-bad" />}
    </>
  );
  return (
    <>
      <Handles />
      {action === "" ? (
        <div className={className} data-node={node.id} data-status={status}>
          {content}
          <span className="sr-only">: {STATUS_WORDS[status]}</span>
        </div>
      ) : (
        <button
          type="button"
          data-node={node.id}
          data-status={status}
          onClick={() => (isSubgraph ? onToggleSubgraph(node.id) : onToggleBreakpoint(node.id))}
          aria-label={`${node.name}${placeOf(node)}: ${STATUS_WORDS[status]}${isStop ? ", breakpoint" : ""}. ${action}`}
          title={action}
          className={cn(className, "hover:border-accent")}
        >
          {content}
        </button>
      )}
    </>
  );
}

/** An opened subgraph around its nodes. */
export function SubgraphNode({ data }: NodeProps): ReactElement {
  const { statuses, onToggleSubgraph } = useGraph();
  const { node } = data as { node: PlacedNode };
  const status = drawnStatus(node.id, statuses);
  return (
    <div
      className={cn(
        "size-full rounded-xl border bg-sunk/50",
        status === "running" ? "border-accent" : status === "waiting" ? "border-warn" : "border-line",
      )}
    >
      <Handles />
      <button
        type="button"
        data-node={node.id}
        data-status={status}
        onClick={() => onToggleSubgraph(node.id)}
        aria-label={`${node.name}${placeOf(node)}: subgraph, ${STATUS_WORDS[status]}. Close the subgraph.`}
        title="Close the subgraph"
        className="nopan pointer-events-auto flex w-full items-center gap-2 rounded-xl px-3 py-1.5 text-left text-[13px] font-medium"
      >
        <StatusIcon status={status} />
        <span className="truncate">{node.name}</span>
        <SubgraphIcon node={node} />
      </button>
    </div>
  );
}
