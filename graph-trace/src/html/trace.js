// The run as the page holds it: one row for each superstep and each task, nested graphs below their task.

// Whole numbers beyond what a float holds are kept exact where the browser tells how they were written.
const exact = (_, value, how) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(how?.source ?? "")
    ? BigInt(how.source)
    : value;

const data = JSON.parse(byId("data").textContent, exact);
const rows = [];
const tasks = [];
const outer = []; // The rows of the root graph's supersteps.

function visit(steps, depth, prefix, over) {
  const seen = { steps, depth };
  steps.forEach((step, nth) => {
    const row = { kind: "step", at: rows.length, visit: seen, nth, step, depth, over, tasks: [] };
    rows.push(row);
    if (depth === 0) outer.push(row);
    for (const task of step.tasks ?? []) {
      const inside = { kind: "task", at: rows.length, visit: seen, nth, step, task, depth, over: row, id: prefix + task.node, graphs: [] };
      rows.push(inside);
      tasks.push(inside);
      row.tasks.push(inside);
      for (const graph of task.graphs ?? []) {
        const first = rows.length;
        visit(graph, depth + 1, inside.id + ":", inside);
        if (rows.length > first) inside.graphs.push(rows[first]);
      }
    }
  });
}
visit(data.steps, 0, "", null);

// Times. A run that was stored without them gets one unit a superstep, so that it still can be seen.
const timed = tasks.some((it) => it.task.at);
if (timed) for (const row of tasks) [row.start, row.end] = row.task.at ?? [0, 0];
else guess(outer, 0, outer.length * 1000);

function guess(steps, start, end) {
  const busy = steps.filter((it) => it.tasks.length > 0);
  const each = (end - start) / Math.max(1, busy.length);
  busy.forEach((step, nth) => {
    for (const row of step.tasks) {
      [row.start, row.end] = [start + nth * each, start + (nth + 0.94) * each];
      for (const first of row.graphs) guess(rows.filter((it) => it.kind === "step" && it.visit === first.visit), row.start, row.end);
    }
  });
}
for (const row of rows) {
  if (row.kind !== "step" || row.tasks.length === 0) continue;
  row.start = row.tasks.reduce((least, it) => Math.min(least, it.start), Infinity);
  row.end = row.tasks.reduce((most, it) => Math.max(most, it.end), 0);
}
const length = Math.max(1, tasks.reduce((most, it) => Math.max(most, it.end), 0));

// Each node has a colour of its own as far as there are colours.
const names = [...new Set(tasks.map((it) => it.id))].sort();
const colors = new Map(names.map((it, nth) => [it, "c" + (nth % 8)]));

// The superstep of the root graph that a row belongs to.
function root(row) {
  while (row.over) row = row.over;
  return row;
}

// The state of a graph after its nth step, put together from what each step changed; undefined before the first.
function stateAfter(steps, nth) {
  const state = new Map();
  let known = false;
  for (const { change } of steps.slice(0, nth + 1)) {
    if (!change) continue;
    known = true;
    for (const [field, value] of change.set ?? []) state.set(field, { value, more: [] });
    for (const [field, items] of change.push ?? []) state.get(field).more.push(items);
    for (const field of change.gone ?? []) state.delete(field);
  }
  if (!known) return undefined;
  const whole = ({ value, more }) => (more.length > 0 ? value.concat(...more) : value);
  return Object.fromEntries([...state].map(([field, it]) => [field, whole(it)]));
}
