// Runs of a program that serves its graph, such as `consulting serve`. The environment variable `PROGRAM_GRAPH` names the
// graph, and `PROGRAM_INPUT` contains the input of a short run as JSON.
import assert from "node:assert/strict";

import { check, collect, dataOf, newClient } from "./packages.mjs";

const client = newClient();
const graph = process.env.PROGRAM_GRAPH;
const input = JSON.parse(process.env.PROGRAM_INPUT);

check("a run is streamed and stored in its thread", async () => {
  const [assistant] = await client.assistants.search({ graphId: graph });
  const { thread_id } = await client.threads.create();
  const streamMode = ["updates", "custom", "values"];
  const parts = await collect(client.runs.stream(thread_id, assistant.assistant_id, { input, streamMode }));
  assert.deepEqual(dataOf(parts, "error"), []);
  assert.ok(dataOf(parts, "custom").length > 0);
  const { run } = dataOf(parts, "updates").at(-1);
  assert.equal(run.status, "complete");
  const state = await client.threads.getState(thread_id);
  assert.deepEqual(state.values, { ...input, ...run });
  const [stored] = await client.runs.list(thread_id);
  assert.equal(stored.status, "success");
});
