// Flows of the client: assistants, threads, runs, streams and the store.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, collect, dataOf, newClient, TINY_INPUT, TINY_RESULT, until, user } from "./packages.mjs";

const client = newClient();

async function newThread() {
  return (await client.threads.create()).thread_id;
}

check("assistants are found and describe their graphs", async () => {
  const [found] = await client.assistants.search({ graphId: "tiny", metadata: { created_by: "system" } });
  assert.equal(found.graph_id, "tiny");
  assert.equal((await client.assistants.get(found.assistant_id)).name, "tiny");
  const graph = await client.assistants.getGraph(found.assistant_id);
  assert.deepEqual(graph.nodes.map((it) => it.id), ["__start__", "a", "b", "__end__"]);
  const schemas = await client.assistants.getSchemas(found.assistant_id);
  assert.equal(schemas.input_schema.properties.value.type, "string");
});

check("threads are created, searched, edited and deleted", async () => {
  const mark = randomUUID();
  const thread = (await client.threads.create({ metadata: { mark } })).thread_id;
  await client.threads.update(thread, { metadata: { more: 1 } });
  const [found] = await client.threads.search({ metadata: { mark } });
  assert.equal(found.thread_id, thread);
  assert.equal(found.metadata.more, 1);
  await client.runs.wait(thread, "tiny", { input: TINY_INPUT });
  await client.threads.updateState(thread, { values: { value: "new" }, asNode: "a" });
  assert.deepEqual((await client.threads.getState(thread)).next, ["b"]);
  await client.threads.delete(thread);
  await assert.rejects(client.threads.get(thread), /404/);
});

check("a run is awaited and its error reported", async () => {
  const thread = await newThread();
  assert.deepEqual(await client.runs.wait(thread, "tiny", { input: TINY_INPUT }), TINY_RESULT);
  assert.deepEqual(await client.runs.wait(null, "tiny", { input: TINY_INPUT }), TINY_RESULT);
  await assert.rejects(client.runs.wait(thread, "fail", { input: { log: [] } }), /boom/);
});

check("values are streamed and the run's id is reported first", async () => {
  const thread = await newThread();
  let created;
  const onRunCreated = (run) => (created ??= run);
  const parts = await collect(client.runs.stream(thread, "tiny", { input: TINY_INPUT, onRunCreated }));
  assert.equal(parts[0].event, "metadata");
  assert.deepEqual(created, { run_id: parts[0].data.run_id, thread_id: thread });
  assert.deepEqual(dataOf(parts, "values").at(-1), TINY_RESULT);
});

check("tokens and updates are streamed together", async () => {
  const streamMode = ["messages-tuple", "updates"];
  const parts = await collect(client.runs.stream(null, "chat", { input: user("hello you"), streamMode }));
  const chunks = dataOf(parts, "messages").map(([message]) => message.content);
  assert.ok(chunks.length >= 2);
  assert.equal(chunks.join(""), "you said hello you");
  assert.deepEqual(Object.keys(dataOf(parts, "updates")[0]), ["model"]);
});

check("events of subgraphs carry their namespace", async () => {
  const parameters = { input: { log: [] }, streamMode: "updates", streamSubgraphs: true };
  const parts = await collect(client.runs.stream(null, "parent", parameters));
  const inner = parts.filter((it) => it.event.startsWith("updates|child:"));
  assert.deepEqual(inner.map((it) => Object.keys(it.data)[0]), ["c1", "c2"]);
});

check("an interrupted run is resumed by the id of its interrupt", async () => {
  const thread = await newThread();
  const waiting = await client.runs.wait(thread, "approval", { input: { topic: "cats" } });
  assert.equal(waiting.__interrupt__[0].value.question, "approve?");
  const { tasks } = await client.threads.getState(thread);
  const command = { resume: { [tasks[0].interrupts[0].id]: "yes" } };
  const result = await client.runs.wait(thread, "approval", { command });
  assert.equal(result.decision, "yes");
  assert.equal((await client.threads.get(thread)).status, "idle");
});

check("a background run is joined and its stream resumed", async () => {
  const thread = await newThread();
  const input = { steps: 4, delay: 0.05 };
  const parameters = { input, streamMode: "values", streamResumable: true };
  const parts = await collect(client.runs.stream(thread, "slow", parameters));
  const run = parts[0].data.run_id;
  const rest = await collect(client.runs.joinStream(thread, run, { lastEventId: parts[1].id }));
  assert.deepEqual(rest.map((it) => it.data), parts.slice(2).map((it) => it.data));
  assert.equal((await client.runs.join(thread, run)).ticks, 4);
  assert.deepEqual((await client.runs.list(thread)).map((it) => [it.run_id, it.status]), [[run, "success"]]);
});

check("a second run is rejected and the first one cancelled", async () => {
  const thread = await newThread();
  const { run_id } = await client.runs.create(thread, "slow", { input: { steps: 400, delay: 0.25 } });
  const second = { input: TINY_INPUT, multitaskStrategy: "reject" };
  await until(async () => (await client.runs.get(thread, run_id)).status === "running");
  await assert.rejects(client.runs.create(thread, "tiny", second), /409/);
  await client.runs.cancel(thread, run_id, true);
  assert.equal((await client.runs.get(thread, run_id)).status, "interrupted");
});

check("a thread is forked from its history", async () => {
  const thread = await newThread();
  await client.runs.wait(thread, "tiny", { input: TINY_INPUT });
  const history = await client.threads.getHistory(thread, { limit: 10 });
  const beforeB = history.find((it) => it.next[0] === "b");
  const fork = await client.threads.updateState(thread, {
    values: { value: "fork" },
    checkpointId: beforeB.checkpoint.checkpoint_id,
  });
  const result = await client.runs.wait(thread, "tiny", { checkpointId: fork.configurable.checkpoint_id });
  assert.equal(result.value, "forkb");
});

check("a run without a thread is joined with another stream mode", async () => {
  const run = await client.runs.create(null, "tiny", { input: TINY_INPUT, onCompletion: "keep" });
  const options = { lastEventId: "-1", streamMode: ["updates"] };
  const events = await collect(client.runs.joinStream(null, run.run_id, options));
  assert.deepEqual(events.map((it) => it.event), ["metadata", "updates", "updates"]);
});

check("items are stored, searched and deleted", async () => {
  const namespace = [randomUUID(), "notes"];
  await client.store.putItem(namespace, "k", { n: 1 });
  assert.deepEqual((await client.store.getItem(namespace, "k")).value, { n: 1 });
  const { items } = await client.store.searchItems(namespace.slice(0, 1), { filter: { n: 1 } });
  assert.deepEqual(items.map((it) => it.key), ["k"]);
  const { namespaces } = await client.store.listNamespaces({ prefix: namespace.slice(0, 1) });
  assert.deepEqual(namespaces, [namespace]);
  await client.store.deleteItem(namespace, "k");
  assert.equal(await client.store.getItem(namespace, "k"), null);
});

check("an assistant and a cron are created and deleted", async () => {
  const created = await client.assistants.create({ graphId: "ctx", context: { greeting: "hey" }, name: "js" });
  const result = await client.runs.wait(null, created.assistant_id, { input: { name: "bob" } });
  assert.equal(result.out, "hey bob");
  await client.assistants.delete(created.assistant_id);
  const cron = await client.crons.create("tiny", { schedule: "0 0 1 1 *", input: TINY_INPUT });
  await client.crons.delete(cron.cron_id);
});
