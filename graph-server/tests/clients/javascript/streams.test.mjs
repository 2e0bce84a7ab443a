// Stream modes, subgraphs, and streams that are resumed.
import assert from "node:assert/strict";

import { check, collect, dataOf, newClient, TINY_INPUT, TINY_RESULT, user } from "./packages.mjs";

const client = newClient();

const stream = (graph, input, parameters) => collect(client.runs.stream(null, graph, { input, ...parameters }));

check("the mode `tasks` shows the start and the end of tasks", async () => {
  const tasks = dataOf(await stream("tiny", TINY_INPUT, { streamMode: "tasks" }), "tasks");
  assert.deepEqual(tasks.map((it) => [it.name, "result" in it]), [["a", false], ["a", true], ["b", false], ["b", true]]);
  assert.equal(tasks[0].id, tasks[1].id);
});

check("the mode `checkpoints` shows each checkpoint", async () => {
  const found = dataOf(await stream("tiny", TINY_INPUT, { streamMode: "checkpoints" }), "checkpoints");
  assert.deepEqual(found.map((it) => it.metadata.step), [-1, 0, 1, 2]);
  assert.deepEqual(found.at(-1).values, TINY_RESULT);
});

check("the mode `debug` shows tasks and checkpoints", async () => {
  const found = dataOf(await stream("tiny", TINY_INPUT, { streamMode: "debug" }), "debug");
  const kinds = ["checkpoint", "checkpoint", "task", "task_result", "checkpoint", "task", "task_result", "checkpoint"];
  assert.deepEqual(found.map((it) => it.type), kinds);
});

check("the mode `custom` shows the events of nodes", async () => {
  const parts = await stream("slow", { steps: 2, delay: 0 }, { streamMode: "custom" });
  assert.deepEqual(dataOf(parts, "custom"), [{ tick: 1 }, { tick: 2 }]);
});

check("the mode `events` shows the run and its nodes, also in subgraphs", async () => {
  const found = dataOf(await stream("parent", { log: [] }, { streamMode: "events", streamSubgraphs: true }), "events");
  const started = found.filter((it) => it.event === "on_chain_start").map((it) => it.name);
  assert.deepEqual(started.slice(1), ["p0", "child", "c1", "c2", "p9"]);
  assert.equal(found.at(-1).event, "on_chain_end");
});

check("the mode `messages` accumulates the text", async () => {
  const parts = await stream("chat", user("hello you"), { streamMode: "messages" });
  const texts = dataOf(parts, "messages/partial").map(([message]) => message.content);
  assert.ok(texts.length >= 2);
  assert.equal(texts.at(-1), "you said hello you");
});

check("every mode of a graph without messages has the namespace of a subgraph", async () => {
  for (const streamMode of ["values", "updates", "tasks", "checkpoints", "debug"]) {
    const parts = await stream("parent", { log: [] }, { streamMode, streamSubgraphs: true });
    assert.ok(parts.some((it) => it.event.startsWith(`${streamMode}|child:`)), streamMode);
    const plain = await stream("parent", { log: [] }, { streamMode });
    assert.deepEqual([...new Set(plain.map((it) => it.event))], ["metadata", streamMode]);
  }
});

check("an empty list of modes stands for `values`", async () => {
  const parts = await stream("tiny", TINY_INPUT, { streamMode: [] });
  assert.deepEqual([...new Set(parts.map((it) => it.event))], ["metadata", "values"]);
});

check("an unknown mode is rejected", async () => {
  await assert.rejects(stream("tiny", TINY_INPUT, { streamMode: "surprise" }), /422/);
});

check("an interrupt is visible in the stream and in the thread", async () => {
  const { thread_id } = await client.threads.create();
  const parameters = { input: { topic: "cats" }, streamMode: ["updates", "values"] };
  const parts = await collect(client.runs.stream(thread_id, "approval", parameters));
  const [{ id, value }] = dataOf(parts, "updates").at(-1).__interrupt__;
  assert.equal(value.question, "approve?");
  assert.equal(dataOf(parts, "values").at(-1).__interrupt__[0].id, id);
  const { status, interrupts } = await client.threads.get(thread_id);
  assert.equal(status, "interrupted");
  assert.deepEqual(Object.values(interrupts).flat().map((it) => it.id), [id]);
});

check("a failed run ends its stream with an error", async () => {
  const parts = await stream("fail", { log: [] }, {});
  assert.equal(parts.at(-1).event, "error");
  assert.deepEqual(parts.at(-1).data, { error: "ValueError", message: "boom" });
});

check("the ids of a resumable stream are unique and resume after any event", async () => {
  const { thread_id } = await client.threads.create();
  const parameters = { input: { items: [1, 2, 3] }, streamMode: ["values", "tasks", "debug"], streamResumable: true };
  const parts = await collect(client.runs.stream(thread_id, "fanout", parameters));
  const ids = parts.map((it) => it.id);
  assert.equal(new Set(ids).size, parts.length);
  const run = parts[0].data.run_id;
  for (const position of [0, 3, parts.length - 2]) {
    const rest = await collect(client.runs.joinStream(thread_id, run, { lastEventId: ids[position] }));
    assert.deepEqual(rest.map((it) => it.id), ids.slice(position + 1));
  }
}, "gives events of the same millisecond the same id");
