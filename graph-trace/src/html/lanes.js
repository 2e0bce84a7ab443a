// Assigns tasks to lanes of the timeline. Concurrent tasks are in different lanes, and the graphs of a task are below
// the task.

// Assigns the tasks of these steps to lanes, starting at `top`, and returns the number of lanes.
function layLanes(steps, top) {
  const free = []; // The time at which each lane becomes free.
  const inOrder = steps.flatMap((it) => it.tasks).sort((a, b) => a.start - b.start || a.at - b.at);
  for (const row of inOrder) {
    const inside = row.graphs.map((first) => rowsOf(first));
    // The graphs of a task are first laid out from lane 0 and then moved below the task.
    const heights = inside.map((it) => layLanes(it, 0));
    const height = 1 + heights.reduce((sum, it) => sum + it, 0);
    const lane = firstFree(free, row.start, height);
    for (let nth = lane; nth < lane + height; nth++) free[nth] = row.end;
    row.lane = top + lane;
    let below = row.lane + 1;
    inside.forEach((it, nth) => {
      shift(it, below);
      below += heights[nth];
    });
  }
  return free.length;
}

function firstFree(free, start, height) {
  for (let lane = 0; ; lane++) {
    let fits = true;
    for (let nth = lane; nth < lane + height && fits; nth++) fits = nth >= free.length || free[nth] <= start;
    if (fits) return lane;
  }
}

// Returns the steps of the graph that starts with a row.
const rowsOf = (first) => {
  const steps = [];
  for (let at = first.at; at < rows.length && rows[at].depth >= first.depth; at++) {
    if (rows[at].kind === "step" && rows[at].graphRun === first.graphRun) steps.push(rows[at]);
    else if (rows[at].kind === "step" && rows[at].depth === first.depth) break;
  }
  return steps;
};

function shift(steps, by) {
  for (const step of steps) {
    for (const row of step.tasks) {
      row.lane += by;
      for (const first of row.graphs) shift(rowsOf(first), by);
    }
  }
}
