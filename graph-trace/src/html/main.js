// Selection and navigation.

let selected = rows[0];

function select(row) {
  if (!row) return;
  selected = row;
  highlightNodes(row);
  focusTimeline(row);
  focusList(row);
  drawDetail(row);
}

// Selects the next task of a node, after the selected one.
function selectNextTask(id) {
  const own = tasks.filter((it) => it.id === id);
  select(own.find((it) => it.at > selected.at) ?? own[0]);
}

const goStep = (by) => select(rootSteps[rootSteps.indexOf(root(selected)) + by]);
const goRow = (by) => select(rows[selected.at + by]);
const keys = { ArrowLeft: () => goStep(-1), ArrowRight: () => goStep(1), ArrowUp: () => goRow(-1), ArrowDown: () => goRow(1), Home: () => select(rows[0]), End: () => select(rows.at(-1)), z: toggleZoom };

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  // In scrollable panes, these keys scroll.
  const scrolls = byId("detail").contains(event.target) || byId("lanes").contains(event.target);
  if (!Object.hasOwn(keys, event.key) || (scrolls && /Up|Down|Home|End/.test(event.key))) return;
  event.preventDefault();
  keys[event.key]();
}

function drawHeader() {
  const ends = { done: ["good", "done"], interrupted: ["ask", "interrupted"], stopped: ["ask", "stopped"], unfinished: ["bad", "unfinished"] };
  const [kind, text] = ends[data.end] ?? ["bad", "failed"];
  byId("title").textContent = visible(data.title);
  byId("end").append(el("span", { class: "end " + kind }, text), typeof data.end === "object" ? el("span", { class: "why" }, " " + visible(String(data.end.failed))) : "");
  const sum = (of) => tasks.reduce((all, it) => all + (of(it.task) ?? []).length, 0);
  const facts = [["supersteps", rootSteps.filter((it) => it.tasks.length > 0).length], ["tasks", tasks.length], ["external calls", sum((it) => it.effects)], ["retries", sum((it) => it.retries)]];
  if (timed) facts.unshift(["time", formatTime(length)]);
  byId("facts").append(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
  byId("facts").append(el("div", {}, el("dt", {}, "graph"), el("dd", { title: `graph ${data.graph}, engine ${data.engine}` }, short(data.graph, 9))));
}

drawHeader();
drawGraph();
drawTimes();
if (rows.length > 0) {
  setUpTimeline();
  setUpList();
  byId("back").addEventListener("click", () => goStep(-1));
  byId("forward").addEventListener("click", () => goStep(1));
  document.addEventListener("keydown", press);
  // Failures and pending interrupts are shown first.
  select(tasks.findLast((it) => it.task.error && !it.task.handled) ?? tasks.find(isPending) ?? rootSteps.find((it) => it.tasks.length > 0) ?? rows[0]);
} else {
  byId("detail").append(el("p", { class: "note" }, "This run executed no steps."));
}
