// Assistants with versions, the store and crons.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, newClient, TINY_INPUT } from "./packages.mjs";

const client = newClient();

check("assistants are searched, counted and paginated", async () => {
  const mark = randomUUID();
  for (const name of ["one", "two", "three"]) {
    await client.assistants.create({ graphId: "tiny", name, metadata: { mark } });
  }
  const query = { metadata: { mark }, sortBy: "name", sortOrder: "asc" };
  const { assistants, next } = await client.assistants.search({ ...query, limit: 2, includePagination: true });
  assert.deepEqual(assistants.map((it) => it.name), ["one", "three"]);
  assert.equal(next, "2");
  assert.equal(await client.assistants.count({ metadata: { mark } }), 3);
  assert.equal(await client.assistants.count({ metadata: { mark }, name: "two" }), 1);
});

check("the id of an assistant is used once", async () => {
  const assistantId = randomUUID();
  await client.assistants.create({ graphId: "tiny", assistantId, name: "first" });
  await assert.rejects(client.assistants.create({ graphId: "tiny", assistantId }), /409/);
  const again = await client.assistants.create({ graphId: "tiny", assistantId, ifExists: "do_nothing" });
  assert.equal(again.name, "first");
});

check("an older version of an assistant is restored", async () => {
  const { assistant_id } = await client.assistants.create({ graphId: "ctx", context: { greeting: "one" } });
  const changed = await client.assistants.update(assistant_id, { graphId: "ctx", context: { greeting: "two" } });
  assert.equal(changed.version, 2);
  const versions = await client.assistants.getVersions(assistant_id);
  assert.deepEqual(versions.map((it) => it.context.greeting), ["two", "one"]);
  await client.assistants.setLatest(assistant_id, 1);
  assert.equal((await client.runs.wait(null, assistant_id, { input: { name: "bob" } })).out, "one bob");
}, "restores the configuration but not the context");

check("an assistant is deleted with its threads", async () => {
  const { assistant_id } = await client.assistants.create({ graphId: "tiny" });
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, assistant_id, { input: TINY_INPUT });
  await client.assistants.delete(assistant_id, { deleteThreads: true });
  await assert.rejects(client.assistants.get(assistant_id), /404/);
  await assert.rejects(client.threads.get(thread_id), /404/);
});

check("a drawing contains the nodes of subgraphs on request", async () => {
  const nodes = async (options) => (await client.assistants.getGraph("parent", options)).nodes.map((it) => it.id);
  assert.deepEqual((await nodes()).sort(), ["__end__", "__start__", "child", "p0", "p9"]);
  assert.ok((await nodes({ xray: true })).includes("child:c1"));
});

check("the schemas of subgraphs are read", async () => {
  const all = await client.assistants.getSubgraphs("parent");
  assert.deepEqual(Object.keys(all), ["child"]);
  assert.deepEqual(await client.assistants.getSubgraphs("parent", { namespace: "child" }), all);
});

check("items are filtered and listed in pages", async () => {
  const root = randomUUID();
  for (const n of [1, 2, 3]) await client.store.putItem([root, "a"], `k${n}`, { n });
  await client.store.putItem([root, "b"], "other", { m: 1 });
  const keys = async (options) => (await client.store.searchItems([root], options)).items.map((it) => it.key).sort();
  assert.deepEqual(await keys({ filter: { n: { $gt: 1 } } }), ["k2", "k3"]);
  assert.equal((await keys({ limit: 3, offset: 3 })).length, 1);
  const { namespaces } = await client.store.listNamespaces({ prefix: [root], maxDepth: 1 });
  assert.deepEqual(namespaces, [[root]]);
}, "answers 500 if an item does not have the field of a filter");

check("nodes and clients share the store", async () => {
  const name = randomUUID();
  await client.runs.wait(null, "ctx", { input: { name }, context: { greeting: "hi" } });
  assert.deepEqual((await client.store.getItem(["greeted"], name)).value, { greeting: "hi" });
});

check("crons are searched, changed and counted", async () => {
  const { thread_id } = await client.threads.create();
  const schedule = { schedule: "0 0 1 1 *", input: TINY_INPUT };
  const cron = await client.crons.createForThread(thread_id, "tiny", schedule);
  const [found] = await client.crons.search({ threadId: thread_id });
  assert.equal(found.cron_id, cron.cron_id);
  const changed = await client.crons.update(cron.cron_id, { schedule: "0 0 2 1 *", enabled: false });
  assert.deepEqual([changed.schedule, changed.enabled], ["0 0 2 1 *", false]);
  assert.equal(await client.crons.count({ threadId: thread_id }), 1);
  await client.crons.delete(cron.cron_id);
  assert.equal(await client.crons.count({ threadId: thread_id }), 0);
});

check("an invalid schedule is rejected", async () => {
  await assert.rejects(client.crons.create("tiny", { schedule: "never", input: TINY_INPUT }), /422/);
});
