// The details of a superstep or task.

function drawDetail(row) {
  byId("look-title").textContent = row.kind === "task" ? "Task" : "Superstep";
  byId("detail").replaceChildren(...(row.kind === "task" ? taskDetail(row) : stepDetail(row)));
  byId("detail").scrollTop = 0;
}

const part = (title, ...content) => el("section", { class: "part" }, el("h3", {}, title), ...content);
const listOf = (values, draw) => el("div", { class: "tree flat" }, pages(values, draw));
const link = (row, text) => el("button", { type: "button", class: "link", on: { click: () => select(row) } }, text);

function taskDetail(row) {
  const { task } = row;
  const time = timed ? `${formatTime(row.end - row.start)}, started at ${formatTime(row.start)}` : "";
  const where = row.parent.parent ? [" inside ", link(row.parent.parent, visible(row.parent.parent.task.node))] : [];
  const parts = [
    el("h2", { class: "big" }, el("span", { class: "dot " + colors.get(row.id) }), visible(task.node), ...badges(row)),
    el("p", { class: "dim" }, link(row.parent, stepName(row.parent)), ...where, time && ` · ${time}`),
  ];
  if (task.error !== undefined) parts.push(part(task.handled ? "Error (handled)" : "Error", el("pre", { class: "error" }, visible(task.error))));
  if (task.interrupts) parts.push(part(isPending(row) ? "Pending interrupts" : "Answered interrupts", listOf(task.interrupts, (it) => field("?", show(it)))));
  parts.push(stateChange(row));
  if (task.writes) parts.push(part("Writes", listOf(task.writes, (it) => field(it.overwrite ? `${it.field} :=` : it.field, show(it.value)))));
  if (task.routes || task.sends) parts.push(part("Routes and sends", listOf([...(task.routes ?? []).map((to) => ({ to })), ...(task.sends ?? [])], targetField)));
  if (task.effects) parts.push(part("External calls", listOf(task.effects, (it) => field(it.key, show(it.result)))));
  if (task.retries) parts.push(part("Failed attempts", listOf(task.retries, (it) => field(it.attempt, el("pre", { class: "error" }, visible(it.error)), ...[...(it.custom ?? []), ...(it.messages ?? [])].map((value) => show(value))))));
  if (task.custom) parts.push(part("Custom events", listOf(task.custom.map((it, nth) => [nth + 1, it]), ([nth, it]) => field(nth, show(it)))));
  if (task.messages) parts.push(part("Messages", listOf(task.messages.map((it, nth) => [nth + 1, it]), ([nth, it]) => field(nth, show(it)))));
  if (row.graphs.length > 0) parts.push(part("Subgraphs", ...row.graphs.map((it, nth) => el("p", {}, link(it, row.graphs.length > 1 ? `graph ${nth + 1}` : "graph"), ` of ${plural(it.graphRun.steps.length, "step")}`))));
  parts.push(part("Input", task.input === undefined ? fold("the state before the superstep", () => show(stateAfter(row.graphRun.steps, row.nth - 1))) : show(task.input)));
  return parts;
}

const targetField = (it) => field(it.to === "__end__" ? "end" : it.to, it.payload === undefined ? el("span", { class: "dim" }, "with the shared state") : show(it.payload));
const fold = (text, content) => collapsible(el("summary", { class: "dim" }, text), false, () => [content()]);

function stateChange(row) {
  const [before, after] = [stateAfter(row.graphRun.steps, row.nth - 1), stateAfter(row.graphRun.steps, row.nth)];
  const isOnlyTask = row.kind === "step" || row.step.tasks.length === 1;
  return part(isOnlyTask ? "State change" : "State change (by all tasks of the superstep)",
    el("div", { class: "tree flat", id: "change" }, ...diff(before, after)),
    before !== undefined && fold("full state before", () => show(before)),
    after !== undefined && fold("full state after", () => show(after)));
}

function stepDetail(row) {
  const time = row.end !== undefined && timed ? `${formatTime(row.end - row.start)}, started at ${formatTime(row.start)}` : "";
  const line = (it) => el("p", { class: "task" }, el("span", { class: "dot " + colors.get(it.id) }), link(it, visible(it.task.node)), ...badges(it), timed && el("span", { class: "took" }, formatTime(it.end - it.start)));
  const first = row.tasks.length === 0 && row.nth === 0 && !row.parent;
  return [
    el("h2", { class: "big" }, stepName(row)),
    row.parent && el("p", { class: "dim" }, "inside ", link(row.parent, visible(row.parent.task.node))),
    time && el("p", { class: "dim" }, time),
    first && part("Input of the run", show(data.input)),
    first && data.later_inputs && part("Inputs of later runs of the thread", listOf(data.later_inputs.map((it, nth) => [nth + 2, it]), ([nth, it]) => field(nth, show(it)))),
    row.tasks.length > 0 && part("Tasks", pages(row.tasks, line)),
    stateChange(row),
  ].filter(Boolean);
}
