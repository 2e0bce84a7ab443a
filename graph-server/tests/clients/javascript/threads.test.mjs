// Threads: creation, search, states, histories and edits.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, finishedThread, newClient, TINY_INPUT, TINY_RESULT, until } from "./packages.mjs";

const client = newClient();

check("a thread is created with its own id once", async () => {
  const threadId = randomUUID();
  await client.threads.create({ threadId, metadata: { a: 1 } });
  await assert.rejects(client.threads.create({ threadId }), /409/);
  const again = await client.threads.create({ threadId, ifExists: "do_nothing" });
  assert.equal(again.metadata.a, 1);
});

check("a thread is created from supersteps", async () => {
  const update = (values, asNode) => ({ updates: [{ values, asNode }] });
  const supersteps = [update(TINY_INPUT, "__input__"), update({ value: "y", log: ["y"], count: 1 }, "a")];
  const { thread_id } = await client.threads.create({ graphId: "tiny", supersteps });
  const { values, next } = await client.threads.getState(thread_id);
  assert.deepEqual(values, { value: "y", log: ["y"], count: 1 });
  assert.deepEqual(next, ["b"]);
});

check("the time to live of a thread is shown on request", async () => {
  const { thread_id } = await client.threads.create({ ttl: 60 });
  const { ttl } = await client.threads.get(thread_id, { include: ["ttl"] });
  assert.deepEqual([ttl.strategy, ttl.ttl_minutes], ["delete", 60]);
});

check("the metadata of a thread is merged", async () => {
  const { thread_id } = await client.threads.create({ metadata: { a: 1 } });
  const { metadata } = await client.threads.update(thread_id, { metadata: { b: 2 } });
  assert.deepEqual([metadata.a, metadata.b], [1, 2]);
  await client.threads.update(thread_id, { metadata: { b: 3 }, returnMinimal: true });
  assert.equal((await client.threads.get(thread_id)).metadata.b, 3);
});

check("threads are searched by metadata, values and status", async () => {
  const mark = randomUUID();
  const idle = await finishedThread(client);
  await client.threads.update(idle, { metadata: { mark } });
  const waiting = await finishedThread(client, "approval", { input: { topic: "cats" } });
  await client.threads.update(waiting, { metadata: { mark } });
  const ids = async (query) => (await client.threads.search({ metadata: { mark }, ...query })).map((it) => it.thread_id);
  assert.deepEqual((await ids({})).sort(), [idle, waiting].sort());
  assert.deepEqual(await ids({ status: "interrupted" }), [waiting]);
  assert.deepEqual(await ids({ values: { value: "xab" } }), [idle]);
  assert.deepEqual(await ids({ ids: [waiting] }), [waiting]);
  assert.equal(await client.threads.count({ metadata: { mark } }), 2);
  assert.equal(await client.threads.count({ metadata: { mark }, status: "idle" }), 1);
});

check("threads are sorted, paginated and reduced to fields", async () => {
  const mark = randomUUID();
  const ids = [];
  for (let n = 0; n < 3; n += 1) ids.push((await client.threads.create({ metadata: { mark, n } })).thread_id);
  const query = { metadata: { mark }, sortBy: "created_at", sortOrder: "asc" };
  const page = await client.threads.search({ ...query, limit: 2, offset: 1 });
  assert.deepEqual(page.map((it) => it.metadata.n), [1, 2]);
  const fields = await client.threads.search({ ...query, select: ["thread_id"] });
  assert.deepEqual(fields, ids.map((it) => ({ thread_id: it })));
});

check("a copy of a thread is independent", async () => {
  const thread = await finishedThread(client);
  const { thread_id: copy } = await client.threads.copy(thread);
  assert.notEqual(copy, thread);
  const result = await client.runs.wait(copy, "tiny", { input: { value: "y" } });
  assert.equal(result.count, 4);
  assert.deepEqual((await client.threads.getState(thread)).values, TINY_RESULT);
});

check("pruned threads are deleted or keep their latest checkpoint", async () => {
  const [kept, deleted] = [await finishedThread(client), await finishedThread(client)];
  await client.threads.prune([kept], { strategy: "keep_latest" });
  assert.equal((await client.threads.getHistory(kept)).length, 1);
  assert.deepEqual(await client.threads.prune([deleted]), { pruned_count: 1 });
  await assert.rejects(client.threads.get(deleted), /404/);
}, "does not support the strategy `keep_latest` in memory");

check("the metadata of a thread is changed through its state", async () => {
  const { thread_id } = await client.threads.create({ metadata: { a: 1 } });
  await client.threads.patchState(thread_id, { b: 2 });
  assert.deepEqual((await client.threads.get(thread_id)).metadata, { a: 1, b: 2 });
}, "does not document this route");

check("a state is read at a checkpoint", async () => {
  const thread = await finishedThread(client);
  const [, before] = await client.threads.getHistory(thread);
  const byId = await client.threads.getState(thread, before.checkpoint.checkpoint_id);
  const byCheckpoint = await client.threads.getState(thread, before.checkpoint);
  assert.deepEqual(byId.values, { value: "xa", log: ["a"], count: 1 });
  assert.deepEqual(byCheckpoint, byId);
  await assert.rejects(client.threads.getState(thread, randomUUID()), /404/);
});

check("a history is read in pages and by metadata", async () => {
  const thread = await finishedThread(client);
  const [first, second] = await client.threads.getHistory(thread, { limit: 2 });
  assert.deepEqual([first.metadata.step, second.metadata.step], [2, 1]);
  const older = await client.threads.getHistory(thread, { before: { configurable: second.checkpoint } });
  assert.deepEqual(older.map((it) => it.metadata.step), [0, -1]);
  const inputs = await client.threads.getHistory(thread, { metadata: { source: "input" } });
  assert.deepEqual(inputs.map((it) => it.metadata.step), [-1]);
});

check("an edit passes through the reducers of its fields", async () => {
  const thread = await finishedThread(client);
  const { checkpoint } = await client.threads.updateState(thread, { values: { log: ["edit"], count: 5 } });
  const state = await client.threads.getState(thread);
  assert.deepEqual(state.values, { value: "xab", log: ["a", "b", "edit"], count: 7 });
  assert.equal(state.checkpoint.checkpoint_id, checkpoint.checkpoint_id);
});

check("a state lists the tasks that run next", async () => {
  const thread = await finishedThread(client, "parent", { input: { log: [] }, interruptBefore: ["child"] });
  const { next, tasks } = await client.threads.getState(thread, undefined, { subgraphs: true });
  assert.deepEqual(next, ["child"]);
  assert.deepEqual(tasks.map((it) => [it.name, it.error, it.interrupts]), [["child", null, []]]);
});

check("the stream of a thread follows its runs", async () => {
  const { thread_id } = await client.threads.create();
  const stop = new AbortController();
  const seen = [];
  const read = async () => {
    for await (const { event, data } of client.threads.joinStream(thread_id, {
      streamMode: ["run_modes"],
      signal: stop.signal,
    })) {
      if (event === "values") seen.push(data.value);
    }
  };
  const reading = read().catch(() => {});
  // The stream starts with the events after its connection, so runs are started until one was seen completely.
  await until(async () => {
    await client.runs.wait(thread_id, "tiny", { input: TINY_INPUT });
    return seen.join().includes("x,xa,xab");
  });
  stop.abort();
  await reading;
});
