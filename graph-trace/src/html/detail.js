// All there is to know about one superstep or one task.

function drawDetail(row) {
  byId("look-title").textContent = row.kind === "task" ? "Task" : "Superstep";
  byId("detail").replaceChildren(...(row.kind === "task" ? taskDetail(row) : stepDetail(row)));
  byId("detail").scrollTop = 0;
}

const part = (title, ...content) => el("section", { class: "part" }, el("h3", {}, title), ...content);
const list_of = (values, draw) => el("div", { class: "tree flat" }, pages(values, draw));
const link = (row, text) => el("button", { type: "button", class: "link", on: { click: () => select(row) } }, text);

function taskDetail(row) {
  const { task } = row;
  const time = timed ? `${took(row.end - row.start)}, from ${took(row.start)} on` : "";
  const where = row.over.over ? [" inside ", link(row.over.over, visible(row.over.over.task.node))] : [];
  const parts = [
    el("h2", { class: "big" }, el("span", { class: "dot " + colors.get(row.id) }), visible(task.node), ...badges(row)),
    el("p", { class: "dim" }, link(row.over, stepName(row.over)), ...where, time && ` · ${time}`),
  ];
  if (task.error !== undefined) parts.push(part(task.handled ? "Error, which its handler took over" : "Error", el("pre", { class: "error" }, visible(task.error))));
  if (task.questions) parts.push(part(waits(row) ? "Asks" : "Asked", list_of(task.questions, (it) => field("?", show(it)))));
  parts.push(stateChange(row));
  if (task.writes) parts.push(part("Writes", list_of(task.writes, (it) => field(it.overwrite ? `${it.field} :=` : it.field, show(it.value)))));
  if (task.routes || task.sends) parts.push(part("Leads to", list_of([...(task.routes ?? []).map((to) => ({ to })), ...(task.sends ?? [])], ledTo)));
  if (task.effects) parts.push(part("Outside calls", list_of(task.effects, (it) => field(it.key, show(it.result)))));
  if (task.retries) parts.push(part("Failed attempts", list_of(task.retries, (it) => field(it.attempt, el("pre", { class: "error" }, visible(it.error)), ...[...(it.custom ?? []), ...(it.messages ?? [])].map((said) => show(said))))));
  if (task.custom) parts.push(part("Custom events", list_of(task.custom.map((it, nth) => [nth + 1, it]), ([nth, it]) => field(nth, show(it)))));
  if (task.messages) parts.push(part("Messages", list_of(task.messages.map((it, nth) => [nth + 1, it]), ([nth, it]) => field(nth, show(it)))));
  if (row.graphs.length > 0) parts.push(part("Ran", ...row.graphs.map((it, nth) => el("p", {}, link(it, row.graphs.length > 1 ? `graph ${nth + 1}` : "a graph"), ` of ${plural(it.visit.steps.length, "step")}`))));
  parts.push(part("Input", task.input === undefined ? fold("the state before the superstep", () => show(stateAfter(row.visit.steps, row.nth - 1))) : show(task.input)));
  return parts;
}

const ledTo = (it) => field(it.to === "__end__" ? "end" : it.to, it.payload === undefined ? el("span", { class: "dim" }, "on the state") : show(it.payload));
const fold = (text, content) => folding(el("summary", { class: "dim" }, text), false, () => [content()]);

function stateChange(row) {
  const [before, after] = [stateAfter(row.visit.steps, row.nth - 1), stateAfter(row.visit.steps, row.nth)];
  const alone = row.kind === "step" || row.step.tasks.length === 1;
  return part(alone ? "State change" : "State change, by all tasks of the superstep",
    el("div", { class: "tree flat", id: "change" }, ...diff(before, after)),
    before !== undefined && fold("whole state before", () => show(before)),
    after !== undefined && fold("whole state after", () => show(after)));
}

function stepDetail(row) {
  const time = row.end !== undefined && timed ? `${took(row.end - row.start)}, from ${took(row.start)} on` : "";
  const line = (it) => el("p", { class: "task" }, el("span", { class: "dot " + colors.get(it.id) }), link(it, visible(it.task.node)), ...badges(it), timed && el("span", { class: "took" }, took(it.end - it.start)));
  const first = row.tasks.length === 0 && row.nth === 0 && !row.over;
  return [
    el("h2", { class: "big" }, stepName(row)),
    row.over && el("p", { class: "dim" }, "inside ", link(row.over, visible(row.over.task.node))),
    time && el("p", { class: "dim" }, time),
    first && part("The run was given", show(data.input)),
    first && data.then && part("Later runs of its thread were given", list_of(data.then.map((it, nth) => [nth + 2, it]), ([nth, it]) => field(nth, show(it)))),
    row.tasks.length > 0 && part("Tasks", pages(row.tasks, line)),
    stateChange(row),
  ].filter(Boolean);
}
