// Runs: results, commands, breakpoints, concurrency, cancellation and batches.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, collect, dataOf, finishedThread, newClient, TINY_INPUT, TINY_RESULT, until } from "./packages.mjs";

const client = newClient();

const newThread = async () => (await client.threads.create()).thread_id;

const statusOf = async (thread, run) => (await client.runs.get(thread, run)).status;

/** Starts a run that takes long, and waits until its first step is stored. */
async function startSlow(thread) {
  const { run_id } = await client.runs.create(thread, "slow", { input: { steps: 400, delay: 0.25 } });
  await until(async () => (await client.threads.getState(thread)).values.ticks > 0);
  return run_id;
}

check("a failed run reports its error instead of throwing on request", async () => {
  const thread = await newThread();
  const result = await client.runs.wait(thread, "fail", { input: { log: [] }, raiseError: false });
  assert.deepEqual(result.__error__, { error: "ValueError", message: "boom" });
  assert.equal((await client.threads.get(thread)).status, "error");
});

check("a run creates its thread on request", async () => {
  const thread = randomUUID();
  await assert.rejects(client.runs.wait(thread, "tiny", { input: TINY_INPUT }), /404/);
  const result = await client.runs.wait(thread, "tiny", { input: TINY_INPUT, ifNotExists: "create" });
  assert.deepEqual(result, TINY_RESULT);
  assert.equal((await client.threads.get(thread)).status, "idle");
});

check("a run of an unknown assistant is rejected", async () => {
  await assert.rejects(client.runs.wait(null, "no-such-graph", { input: {} }), /404|422/);
});

check("the context and the configuration reach the nodes", async () => {
  const parameters = { input: { name: "bob" }, context: { greeting: "hi" } };
  assert.equal((await client.runs.wait(null, "ctx", parameters)).out, "hi bob");
  const config = { configurable: { user: "ann" } };
  const result = await client.runs.wait(null, "ctx", { input: { name: "bob" }, config });
  assert.deepEqual([result.out, result.user], ["hello bob", "ann"]);
});

check("the metadata of a run is stored", async () => {
  const thread = await newThread();
  const { run_id } = await client.runs.create(thread, "tiny", { input: TINY_INPUT, metadata: { a: 1 } });
  const run = await client.runs.get(thread, run_id);
  assert.equal(run.metadata.a, 1);
  assert.equal(run.multitask_strategy, "enqueue");
});

check("a run fans out to parallel tasks", async () => {
  const result = await client.runs.wait(null, "fanout", { input: { items: [3, 1, 2] } });
  assert.deepEqual([result.results, result.total], [[9, 1, 4], 14]);
});

check("a node selects the next one with a command", async () => {
  assert.deepEqual((await client.runs.wait(null, "route", { input: { n: 3 } })).path, ["decide", "odd"]);
  assert.deepEqual((await client.runs.wait(null, "route", { input: { n: 4 } })).path, ["decide", "even"]);
});

check("a command updates the state and goes to a node", async () => {
  const thread = await finishedThread(client);
  const command = { update: { value: "new" }, goto: "b" };
  const result = await client.runs.wait(thread, "tiny", { command });
  assert.deepEqual(result, { value: "newb", log: ["a", "b", "b"], count: 3 });
});

check("a breakpoint before a node stops the run", async () => {
  const thread = await newThread();
  const parameters = { input: TINY_INPUT, interruptBefore: ["b"], streamMode: "updates" };
  const parts = await collect(client.runs.stream(thread, "tiny", parameters));
  assert.deepEqual(dataOf(parts, "updates").at(-1), { __interrupt__: [] });
  assert.deepEqual((await client.threads.getState(thread)).next, ["b"]);
  assert.deepEqual(await client.runs.wait(thread, "tiny"), TINY_RESULT);
});

check("a breakpoint after every node stops the run after the first one", async () => {
  const thread = await newThread();
  const first = await client.runs.wait(thread, "tiny", { input: TINY_INPUT, interruptAfter: "*" });
  assert.equal(first.value, "xa");
});

check("runs of a thread are executed in order", async () => {
  const thread = await newThread();
  const inputs = ["1", "2", "3"];
  const runs = [];
  for (const value of inputs) runs.push(await client.runs.create(thread, "tiny", { input: { value } }));
  const last = await client.runs.join(thread, runs[2].run_id);
  assert.deepEqual([last.value, last.count], ["3ab", 6]);
  for (const { run_id } of runs) assert.equal(await statusOf(thread, run_id), "success");
});

check("the strategy `interrupt` keeps the progress of the first run", async () => {
  const thread = await newThread();
  const first = await startSlow(thread);
  const second = { input: { steps: 1, delay: 0 }, multitaskStrategy: "interrupt" };
  assert.ok((await client.runs.wait(thread, "slow", second)).ticks >= 2);
  const { status, cancel_reason } = await client.runs.get(thread, first);
  assert.equal(status, "interrupted");
  assert.equal(typeof cancel_reason, "string");
});

check("the strategy `rollback` deletes the first run", async () => {
  const thread = await newThread();
  const first = await startSlow(thread);
  const second = { input: { steps: 1, delay: 0 }, multitaskStrategy: "rollback" };
  assert.equal((await client.runs.wait(thread, "slow", second)).ticks, 1);
  await assert.rejects(client.runs.get(thread, first), /404/);
});

check("a cancelled run can be rolled back", async () => {
  const thread = await finishedThread(client);
  const ids = async () => (await client.threads.getHistory(thread)).map((it) => it.checkpoint.checkpoint_id);
  const before = await ids();
  const run = await startSlow(thread);
  await client.runs.cancel(thread, run, true, "rollback");
  await assert.rejects(client.runs.get(thread, run), /404/);
  await until(async () => (await ids()).join() === before.join());
});

check("several runs are cancelled at once", async () => {
  const thread = await newThread();
  const run = await startSlow(thread);
  await client.runs.cancelMany({ threadId: thread, runIds: [run] });
  await until(async () => (await statusOf(thread, run)) === "interrupted");
});

check("a run that has ended cannot be cancelled, and can be deleted", async () => {
  const thread = await finishedThread(client);
  const [{ run_id }] = await client.runs.list(thread);
  await assert.rejects(client.runs.cancel(thread, run_id, true), /404|409/);
  await client.runs.delete(thread, run_id);
  assert.deepEqual(await client.runs.list(thread), []);
});

check("runs are listed by status and reduced to fields", async () => {
  const thread = await finishedThread(client);
  await client.runs.wait(thread, "fail", { input: { log: [] }, raiseError: false });
  const failed = await client.runs.list(thread, { status: "error", select: ["status"] });
  assert.deepEqual(failed, [{ status: "error" }]);
  assert.equal((await client.runs.list(thread, { limit: 1 })).length, 1);
});

check("a run starts after its delay", async () => {
  const thread = await newThread();
  const { run_id } = await client.runs.create(thread, "tiny", { input: TINY_INPUT, afterSeconds: 20 });
  assert.equal(await statusOf(thread, run_id), "pending");
  assert.deepEqual(await client.runs.join(thread, run_id), TINY_RESULT);
});

check("a run starts from an older checkpoint", async () => {
  const thread = await finishedThread(client);
  const history = await client.threads.getHistory(thread);
  const { checkpoint } = history.find((it) => it.next[0] === "b");
  const parts = await collect(client.runs.stream(thread, "tiny", { checkpoint, streamMode: "updates" }));
  assert.deepEqual(dataOf(parts, "updates").map((it) => Object.keys(it)[0]), ["b"]);
});

check("the durability decides which checkpoints are kept", async () => {
  for (const [durability, count] of [["sync", 4], ["async", 4], ["exit", 1]]) {
    const thread = await newThread();
    await client.runs.wait(thread, "tiny", { input: TINY_INPUT, durability });
    assert.equal((await client.threads.getHistory(thread)).length, count, durability);
  }
});

check("a batch starts several runs", async () => {
  const started = await client.runs.createBatch([
    { assistantId: "tiny", input: TINY_INPUT },
    { assistantId: "route", input: { n: 1 } },
  ]);
  assert.equal(started.length, 2);
  assert.notEqual(started[0].run_id, started[1].run_id);
});

check("a webhook to a private address is rejected", async () => {
  const thread = await newThread();
  const webhook = "http://127.0.0.1:9/hook";
  await assert.rejects(client.runs.create(thread, "tiny", { input: TINY_INPUT, webhook }), /422/);
});

check("a client that disconnects cancels its run on request", async () => {
  const thread = await newThread();
  const stop = new AbortController();
  const parameters = { input: { steps: 400, delay: 0.1 }, streamMode: "custom", onDisconnect: "cancel" };
  let run;
  const read = async () => {
    for await (const { event, data } of client.runs.stream(thread, "slow", { ...parameters, signal: stop.signal })) {
      run ??= data.run_id;
      if (event === "custom") stop.abort();
    }
  };
  await read().catch(() => {});
  await until(async () => (await statusOf(thread, run)) === "interrupted");
});
