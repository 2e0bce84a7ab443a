// The list of supersteps and tasks. Only visible rows are in the document.

const ROW = 30;
const list = byId("rows");
const room = el("div", { class: "room", role: "presentation" });

function setUpList() {
  room.style.height = `${rows.length * ROW}px`;
  list.append(room);
  byId("run-title").textContent = plural(rootSteps.filter((it) => it.tasks.length > 0).length, "superstep");
  list.addEventListener("scroll", () => requestAnimationFrame(drawList));
  new ResizeObserver(drawList).observe(list);
  list.addEventListener("click", (event) => {
    const at = event.target.closest("[data-row]")?.dataset.row;
    if (at !== undefined) select(rows[at]);
  });
}

function focusList(row) {
  const top = row.at * ROW;
  if (top < list.scrollTop) list.scrollTop = top - ROW;
  if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + 2 * ROW - list.clientHeight;
  drawList();
}

function drawList() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
  const last = Math.min(rows.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 10);
  room.replaceChildren(...rows.slice(first, last).map(drawRow));
  list.setAttribute("aria-activedescendant", `row-${selected.at}`);
}

function drawRow(row) {
  const options = { id: `row-${row.at}`, role: "option", "aria-selected": row === selected, "aria-posinset": row.at + 1, "aria-setsize": rows.length, "data-row": row.at };
  const kinds = ["row", row.kind, root(row) === root(selected) && "near"].filter(Boolean).join(" ");
  const time = timed && row.end !== undefined ? el("span", { class: "took" }, formatTime(row.end - row.start)) : undefined;
  const item = el("div", { ...options, class: kinds }, ...(row.kind === "step" ? stepLine(row) : taskLine(row)), el("span", { class: "space" }), time);
  item.style.top = `${row.at * ROW}px`;
  item.style.paddingLeft = `${10 + 18 * row.depth + (row.kind === "task" ? 14 : 0)}px`;
  return item;
}

const stepName = (row) => (row.tasks.length > 0 ? `Superstep ${row.step.step}` : `Input, step ${row.step.step}`);

function stepLine(row) {
  const count = row.tasks.length > 1 ? el("span", { class: "dim" }, plural(row.tasks.length, "task")) : undefined;
  return [el("span", { class: "name" }, stepName(row)), count];
}

function taskLine(row) {
  return [el("span", { class: "dot " + colors.get(row.id) }), el("span", { class: "name" }, visible(row.task.node)), ...badges(row)];
}

// Answered interrupts stay in the trace; pending ones are in the last superstep.
const isPending = (row) => row.task.interrupts && data.end === "interrupted" && root(row) === rootSteps.at(-1);

function badges(row) {
  const { task } = row;
  const badge = (kind, sign, text) => el("span", { class: "badge " + kind, title: text, role: "img", "aria-label": text }, sign);
  return [
    task.error && !task.handled && badge("bad", "failed", "The task failed"),
    task.handled && badge("warn", "handled", "The error handler took over"),
    isPending(row) && badge("ask", "interrupted", "An interrupt is pending"),
    task.interrupts && !isPending(row) && badge("", "answered", "The task was interrupted and has been answered"),
    task.cached && badge("", "cached", "Not executed, because its result was already known"),
    task.retries && badge("warn", `↻ ${task.retries.length}`, plural(task.retries.length, "failed attempt")),
    task.graphs && badge("", "graph", "The task ran a subgraph"),
  ].filter(Boolean);
}
