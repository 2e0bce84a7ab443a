// Which lane each task's bar is in: tasks that run at once lie below each other, and a task's graphs below the task.

// Puts the tasks of some steps into lanes from `top` on, and says how many lanes they take.
function layLanes(steps, top) {
  const free = []; // When each lane is free again.
  const inOrder = steps.flatMap((it) => it.tasks).sort((a, b) => a.start - b.start || a.at - b.at);
  for (const row of inOrder) {
    const inside = row.graphs.map((first) => rowsOf(first));
    // A first guess at where it lies; its graphs move with it.
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

// The steps of the visit that begins with a row.
const rowsOf = (first) => {
  const steps = [];
  for (let at = first.at; at < rows.length && rows[at].depth >= first.depth; at++) {
    if (rows[at].kind === "step" && rows[at].visit === first.visit) steps.push(rows[at]);
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
