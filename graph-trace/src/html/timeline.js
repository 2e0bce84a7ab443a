// The tasks over time. Only visible bars are drawn, and bars that are too close to each other to be distinguished are drawn as one bar.

const LANE = 24;
const AXIS = 22;
const n_lanes = layLanes(rootSteps, 0);
const byLane = Array.from({ length: n_lanes }, () => []);
for (const row of tasks) byLane[row.lane].push(row);
for (const lane of byLane) lane.sort((a, b) => a.start - b.start);

const pane = byId("lanes");
const canvas = svg("svg", {});
const spacer = el("div", { class: "spacer" }, canvas);
let range = [0, length];
let zoomed = false;

function setUpTimeline() {
  spacer.style.height = `${AXIS + n_lanes * LANE + 4}px`;
  pane.append(spacer);
  byId("time-note").textContent = timed ? `${formatTime(length)} from the first to the last event` : "this run was stored without timing: all supersteps are drawn with the same length";
  pane.addEventListener("scroll", () => requestAnimationFrame(drawTimeline));
  new ResizeObserver(drawTimeline).observe(pane);
  canvas.addEventListener("click", (event) => {
    const at = event.target.closest("[data-row]")?.dataset.row;
    if (at !== undefined) select(rows[at]);
  });
  byId("zoom").addEventListener("click", toggleZoom);
}

function toggleZoom() {
  zoomed = !zoomed;
  byId("zoom").setAttribute("aria-pressed", zoomed);
  focusTimeline(selected);
}

// Scrolls to the lane of a task; in the zoomed view, shows its superstep only.
function focusTimeline(row) {
  const step = root(row);
  const canZoom = zoomed && step.end > step.start;
  const margin = canZoom ? 0.03 * (step.end - step.start) : 0;
  range = canZoom ? [step.start - margin, step.end + margin] : [0, length];
  const lane = row.lane ?? row.tasks?.[0]?.lane;
  if (lane !== undefined) {
    const y = lane * LANE;
    const height = pane.clientHeight - AXIS;
    if (y < pane.scrollTop || y + LANE > pane.scrollTop + height) pane.scrollTop = Math.max(0, y - height / 2);
  }
  drawTimeline();
}

function drawTimeline() {
  const [width, height] = [pane.clientWidth, Math.min(pane.clientHeight, AXIS + n_lanes * LANE + 4)];
  if (width === 0) return;
  canvas.setAttribute("width", width);
  canvas.setAttribute("height", height);
  const scale = (width - 12) / (range[1] - range[0]);
  const x = (time) => 6 + (time - range[0]) * scale;
  const parts = [...bands(x, width, height)];
  const first = Math.floor(pane.scrollTop / LANE);
  const last = Math.min(n_lanes, Math.ceil((pane.scrollTop + height) / LANE));
  const bars = svg("g", { "clip-path": "url(#below)" });
  const clip = svg("clipPath", { id: "below" }, svg("rect", { x: 0, y: AXIS, width, height }));
  for (let lane = first; lane < last; lane++) {
    const y = AXIS + lane * LANE - pane.scrollTop + 2;
    let filled = -1;
    for (const row of byLane[lane]) {
      const [from, to] = [x(row.start), Math.max(x(row.end), x(row.start) + 3)];
      const isSelected = row === selected;
      if (from > width || to < 0 || (to - from < 4 && to <= filled + 1 && !isSelected)) continue;
      filled = to;
      bars.append(drawBar(row, from, to - from, y));
    }
  }
  canvas.replaceChildren(svg("defs", {}, clip), ...parts, bars);
}

function drawBar(row, x, width, y) {
  const kinds = ["bar", colors.get(row.id), row === selected && "now", row.task.error && !row.task.handled && "failed"];
  const left = Math.max(x, 0);
  const room = Math.floor((x + width - left - 10) / 6.8);
  const time = timed ? ` ${formatTime(row.end - row.start)}` : "";
  const name = visible(row.task.node);
  const label = room > name.length + time.length ? [name, svg("tspan", { class: "dim" }, time)] : room > 2 ? [short(name, room)] : [];
  return svg("g", { class: kinds.filter(Boolean).join(" "), "data-row": row.at },
    svg("title", {}, `${name}${time}`),
    svg("rect", { x, y, width, height: LANE - 4, rx: 4 }),
    svg("rect", { class: "edge", x, y, width: Math.min(4, width), height: LANE - 4, rx: 2 }),
    label.length > 0 && svg("text", { x: left + 9, y: y + 14 }, ...label));
}

// Draws one band per superstep, with the step number if there is space.
function bands(x, width, height) {
  const parts = [];
  let [labelled, filled] = [-1, -1];
  rootSteps.forEach((row, nth) => {
    if (row.start === undefined) return;
    const [from, to] = [x(row.start), Math.max(x(row.end), x(row.start) + 2)];
    const isSelected = row === root(selected);
    if (from > width || to < 0 || (to <= filled + 2 && !isSelected)) return;
    filled = to;
    const kinds = ["band", isSelected && "now", nth % 2 === 1 && "odd"].filter(Boolean).join(" ");
    parts.push(svg("rect", { class: kinds, x: from, y: 0, width: to - from, height, "data-row": row.at }));
    const text = String(row.step.step);
    const left = Math.max(from, 0) + 3;
    if (left > labelled + 4 && left + 7 * text.length < Math.max(to, left + 14)) {
      parts.push(svg("text", { class: isSelected ? "axis now" : "axis", x: left, y: 15, "data-row": row.at }, text));
      labelled = left + 7 * text.length;
    }
  });
  return parts;
}
