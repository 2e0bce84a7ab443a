import { type Node, Position } from "@xyflow/react";

import type { Box } from "./box";

/**
 * Position, size and handles of a node. They are specified up front: React Flow draws no edges for nodes that it still
 * has to measure.
 */
export function placed({ x, y, width, height }: Box, narrow: boolean) {
  const [middle, centre] = [width / 2, height / 2];
  const handles: Node["handles"] = narrow
    ? [
        { type: "target", position: Position.Top, x: middle, y: 0 },
        { type: "source", position: Position.Bottom, x: middle, y: height },
      ]
    : [
        { type: "target", position: Position.Left, x: 0, y: centre },
        { type: "source", position: Position.Right, x: width, y: centre },
      ];
  return { position: { x, y }, width, height, measured: { width, height }, handles };
}
