// The graph with the executed path.

const drawn = new Map(); // The element of each node, by id.

function drawGraph() {
  const { picture } = data;
  byId("map-note").textContent = picture ? "executed nodes and edges are highlighted" : "";
  if (!picture) {
    byId("graph").append(el("p", { class: "note" }, "The graph is too large to be drawn."));
    return;
  }
  const arrow = (id) => svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0 8 4 0 8z" }));
  const nodes = picture.nodes.map(drawNode);
  // Expanded subgraphs are drawn below the edges inside them.
  const open = nodes.filter((_, nth) => picture.nodes[nth].open);
  const closed = nodes.filter((_, nth) => !picture.nodes[nth].open);
  const edges = [...picture.edges].sort((a, b) => Math.min(a.taken, 1) - Math.min(b.taken, 1)).map(drawEdge);
  const parts = [svg("defs", {}, arrow("arrow"), arrow("arrow-taken")), ...open, ...edges.map((it) => it[0]), ...closed, ...edges.map((it) => it[1])];
  const label = `A graph of ${plural(picture.nodes.length, "node")}`;
  const box = { viewBox: `0 0 ${picture.width} ${picture.height}`, width: picture.width, height: picture.height };
  byId("graph").append(svg("svg", { ...box, role: "group", "aria-label": label }, ...parts.filter(Boolean)));
}

function drawNode(node) {
  const { x, y, width, height } = node;
  const ends = node.kind === "start" || node.kind === "end";
  const kinds = ["node", node.kind, node.open && "open", node.runs > 0 && "ran", node.failed && "failed", node.interrupted && "interrupted"];
  const middle = x + width / 2;
  const top = node.open ? y + 17 : y + (height - 14 * node.marks.length) / 2 + 4;
  const name = short(visible(ends ? node.kind : node.name), Math.floor(width / 7.6) - 1);
  const parts = [
    svg("title", {}, `${visible(node.name)}: ran ${node.runs === 1 ? "once" : plural(node.runs, "time")}`),
    svg("rect", { x, y, width, height, rx: ends ? height / 2 : 8 }),
    svg("text", { x: middle, y: top, "text-anchor": "middle" }, name),
    ...node.marks.map((it, nth) => svg("text", { class: "mark", x: middle, y: top + 14 * (nth + 1), "text-anchor": "middle" }, it)),
  ];
  if (node.runs > 1 && !ends) {
    const text = `×${node.runs}`;
    const w = 10 + 7 * text.length;
    parts.push(svg("rect", { class: "count", x: x + width - w + 8, y: y - 9, width: w, height: 18, rx: 9 }));
    parts.push(svg("text", { class: "count", x: x + width - w / 2 + 8, y: y + 4, "text-anchor": "middle" }, text));
  }
  const isSelectable = node.runs > 0 && !ends;
  const selectNext = () => selectNextTask(node.id);
  const press = (event) => event.key === "Enter" && selectNext();
  const how = isSelectable ? { tabindex: 0, role: "button", on: { click: selectNext, keydown: press } } : {};
  const group = svg("g", { class: kinds.filter(Boolean).join(" "), ...how }, ...parts);
  drawn.set(node.id, group);
  return group;
}

function drawEdge(edge) {
  const kinds = ["edge", edge.taken > 0 && "taken", edge.conditional && "maybe", edge.join && "join"];
  const path = svg("path", { class: kinds.filter(Boolean).join(" "), d: route(edge), "marker-end": edge.taken > 0 ? "url(#arrow-taken)" : "url(#arrow)" });
  const text = [edge.label && visible(short(edge.label, 28)), edge.sends && "sends", edge.taken > 1 && `×${edge.taken}`].filter(Boolean).join(" ");
  if (!text) return [path];
  // The label is at the middle of the last bend, on the side away from other lines.
  const [a, b] = edge.points.slice(-2);
  const side = edge.from === edge.to ? 1 : Math.sign(a[0] + b[0] - middleOf(edge.from) - middleOf(edge.to));
  const near = { x: (a[0] + b[0]) / 2 + 5 * side, y: (a[1] + b[1]) / 2 + 4, "text-anchor": ["end", "middle", "start"][side + 1] };
  return [path, svg("text", { ...near, class: edge.taken > 0 ? "label taken" : "label" }, text)];
}

function middleOf(id) {
  const node = data.picture.nodes.find((it) => it.id === id);
  return node.x + node.width / 2;
}

// Returns a smooth path that is vertical at each of the points.
function route({ from, to, points }) {
  const [[x, y], ...rest] = points;
  let path = `M${x} ${y}`;
  if (from === to) return path + " C" + rest.map((it) => it.join(" ")).join(" ");
  let [lastX, lastY] = [x, y];
  for (const [nextX, nextY] of rest) {
    const middle = (lastY + nextY) / 2;
    path += lastX === nextX ? ` V${nextY}` : ` C${lastX} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    [lastX, lastY] = [nextX, nextY];
  }
  return path;
}

// Highlights the nodes of a superstep or task.
function highlightNodes(row) {
  const now = new Set(row.kind === "task" ? [row.id] : row.tasks.map((it) => it.id));
  for (let it = row.parent; it; it = it.parent) if (it.kind === "task") now.add(it.id);
  for (const [id, group] of drawn) group.classList.toggle("now", now.has(id));
}

function drawTimes() {
  const sums = new Map();
  for (const row of tasks) {
    const sum = sums.get(row.id) ?? { runs: 0, total: 0, longest: 0, row };
    const time = row.end - row.start;
    if (time > sum.longest) [sum.longest, sum.row] = [time, row];
    sum.runs++;
    sum.total += time;
    sums.set(row.id, sum);
  }
  const sorted = [...sums].sort((a, b) => b[1].total - a[1].total);
  const most = Math.max(1, sorted[0]?.[1].total ?? 0);
  const line = ([id, sum]) => {
    const bar = el("span", { class: "share " + colors.get(id) });
    bar.style.width = `${(100 * sum.total) / most}%`;
    const name = el("button", { type: "button", title: "Go to the longest task of this node", on: { click: () => select(sum.row) } }, visible(id.replaceAll(":", " › ")));
    const time = (it) => (timed ? formatTime(it) : "–");
    return el("tr", {}, el("td", {}, name, bar), el("td", {}, String(sum.runs)), el("td", {}, time(sum.total)), el("td", {}, time(sum.longest)));
  };
  byId("nodes").tBodies[0].append(pages(sorted, line));
}
