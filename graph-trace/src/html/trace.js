// The run as rows: one for each superstep and each task, with nested graphs below their task.

// If the browser provides the source text of numbers, preserves integers that a float cannot represent.
const exact = (_, value, how) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(how?.source ?? "")
    ? BigInt(how.source)
    : value;

const data = JSON.parse(byId("data").textContent, exact);
const rows = [];
const tasks = [];
const rootSteps = []; // The rows of the root graph's supersteps.

function visit(steps, depth, prefix, parent) {
  const graphRun = { steps, depth };
  steps.forEach((step, nth) => {
    const row = { kind: "step", at: rows.length, graphRun, nth, step, depth, parent, tasks: [] };
    rows.push(row);
    if (depth === 0) rootSteps.push(row);
    for (const task of step.tasks ?? []) {
      const inside = { kind: "task", at: rows.length, graphRun, nth, step, task, depth, parent: row, id: prefix + task.node, graphs: [] };
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

// A run without timing gets one unit of time per superstep.
const timed = tasks.some((it) => it.task.at);
if (timed) for (const row of tasks) [row.start, row.end] = row.task.at ?? [0, 0];
else estimateTimes(rootSteps, 0, rootSteps.length * 1000);

function estimateTimes(steps, start, end) {
  const withTasks = steps.filter((it) => it.tasks.length > 0);
  const each = (end - start) / Math.max(1, withTasks.length);
  withTasks.forEach((step, nth) => {
    for (const row of step.tasks) {
      [row.start, row.end] = [start + nth * each, start + (nth + 0.94) * each];
      for (const first of row.graphs) estimateTimes(rows.filter((it) => it.kind === "step" && it.graphRun === first.graphRun), row.start, row.end);
    }
  });
}
for (const row of rows) {
  if (row.kind !== "step" || row.tasks.length === 0) continue;
  row.start = row.tasks.reduce((least, it) => Math.min(least, it.start), Infinity);
  row.end = row.tasks.reduce((most, it) => Math.max(most, it.end), 0);
}
const length = Math.max(1, tasks.reduce((most, it) => Math.max(most, it.end), 0));

// Each node gets its own colour, as long as there are enough colours.
const names = [...new Set(tasks.map((it) => it.id))].sort();
const colors = new Map(names.map((it, nth) => [it, "c" + (nth % 8)]));

// Returns the superstep of the root graph that a row belongs to.
function root(row) {
  while (row.parent) row = row.parent;
  return row;
}

// Computes the state of a graph after its nth step from the changes of the steps. Returns undefined if no step up to
// the nth changed the state.
function stateAfter(steps, nth) {
  const state = new Map();
  let hasState = false;
  for (const { change } of steps.slice(0, nth + 1)) {
    if (!change) continue;
    hasState = true;
    for (const [field, value] of change.set ?? []) state.set(field, { value, more: [] });
    for (const [field, items] of change.push ?? []) state.get(field).more.push(items);
    for (const field of change.gone ?? []) state.delete(field);
  }
  if (!hasState) return undefined;
  const whole = ({ value, more }) => (more.length > 0 ? value.concat(...more) : value);
  return Object.fromEntries([...state].map(([field, it]) => [field, whole(it)]));
}
