// The thread-centric protocol: `threads.stream()` and the controller that the newer `useStream` hooks share.
import assert from "node:assert/strict";

import { check, load, newClient, TINY_INPUT, TINY_RESULT, until, user } from "./packages.mjs";

const { StreamController } = load("@langchain/langgraph-sdk/stream");
const client = newClient();

check("a thread stream returns values and the output", async () => {
  const thread = client.threads.stream({ assistantId: "tiny" });
  try {
    await thread.run.start({ input: TINY_INPUT });
    const seen = [];
    for await (const value of thread.values) seen.push(value);
    assert.deepEqual(seen.at(-1), TINY_RESULT);
    assert.deepEqual(await thread.output, TINY_RESULT);
  } finally {
    await thread.close();
  }
});

check("a thread stream assembles messages from deltas", async () => {
  const thread = client.threads.stream({ assistantId: "chat" });
  try {
    // Reading begins before the run starts, so that the run cannot end before the client subscribes.
    const read = async () => {
      const texts = [];
      for await (const message of thread.messages) {
        const chunks = [];
        for await (const chunk of message.text) chunks.push(chunk);
        texts.push(chunks);
      }
      return texts;
    };
    const [texts] = await Promise.all([read(), thread.run.start({ input: user("hello you") })]);
    assert.equal(texts.length, 1);
    assert.ok(texts[0].length >= 2);
    assert.equal(texts[0].join(""), "you said hello you");
  } finally {
    await thread.close();
  }
});

check("a thread stream discovers subgraphs", async () => {
  const thread = client.threads.stream({ assistantId: "parent" });
  try {
    await thread.run.start({ input: { log: [] } });
    const names = [];
    for await (const subgraph of thread.subgraphs) names.push(subgraph.name);
    assert.deepEqual(names, ["child"]);
  } finally {
    await thread.close();
  }
});

check("a thread stream answers an interrupt", async () => {
  const thread = client.threads.stream({ assistantId: "approval" });
  try {
    await thread.run.start({ input: { topic: "cats" } });
    await until(() => thread.interrupted && thread.interrupts.length === 1);
    const [{ interruptId, namespace, payload }] = thread.interrupts;
    assert.equal(payload.question, "approve?");
    await thread.input.respond({ interrupt_id: interruptId, namespace, response: "yes" });
    const state = await until(async () => {
      const found = await client.threads.getState(thread.threadId);
      return found.next.length === 0 ? found : undefined;
    });
    assert.deepEqual(state.values.log, ["draft", "review", "publish"]);
  } finally {
    await thread.close();
  }
});

check("a thread stream lists checkpoints, forks from one, and returns the tree of graphs", async () => {
  const thread = client.threads.stream({ assistantId: "tiny" });
  try {
    await thread.run.start({ input: TINY_INPUT });
    assert.deepEqual(await thread.output, TINY_RESULT);
    const { checkpoints } = await thread.state.listCheckpoints({ limit: 2 });
    assert.deepEqual(checkpoints.map((it) => [it.step, it.node_name]), [[2, "b"], [1, "a"]]);
    const forked = await thread.state.fork({ checkpoint_id: checkpoints[1].id, input: { value: "y" } });
    assert.equal(forked.thread_id, thread.threadId);
    const values = await client.runs.join(forked.thread_id, forked.run_id);
    assert.equal(values.value, "yab");
    const { tree } = await thread.agent.getTree({ run_id: forked.run_id });
    assert.deepEqual(tree, { namespace: [], status: "completed", graph_name: "tiny" });
  } finally {
    await thread.close();
  }
});

check("a thread stream injects a message", async () => {
  const thread = client.threads.stream({ assistantId: "chat" });
  try {
    await thread.run.start({ input: user("hello") });
    await thread.input.inject({ namespace: [], message: { role: "user", content: "more" } });
    const messages = await until(async () => {
      const found = (await client.threads.getState(thread.threadId)).values.messages;
      return found?.length === 4 ? found : undefined;
    });
    assert.equal(messages[3].content, "you said more");
  } finally {
    await thread.close();
  }
});

check("the controller of the newer hooks streams a conversation", async () => {
  const controller = new StreamController({ assistantId: "chat", client, threadId: null });
  const release = controller.activate();
  try {
    await controller.submit(user("hello you"));
    const snapshot = await until(() => {
      const found = controller.rootStore.getSnapshot();
      return !found.isLoading && found.messages.length === 2 ? found : undefined;
    });
    assert.equal(snapshot.messages[1].text, "you said hello you");
    assert.ok(snapshot.threadId);
  } finally {
    release();
    await controller.dispose();
  }
});

check("the controller of the newer hooks answers an interrupt", async () => {
  const controller = new StreamController({ assistantId: "approval", client, threadId: null });
  const release = controller.activate();
  const snapshot = () => controller.rootStore.getSnapshot();
  try {
    await controller.submit({ topic: "cats" });
    await until(() => snapshot().interrupts.length === 1);
    assert.equal(snapshot().interrupts[0].value.question, "approve?");
    await controller.respond("yes");
    await until(() => snapshot().values.decision === "yes" && !snapshot().isLoading);
    assert.deepEqual(snapshot().values.log, ["draft", "review", "publish"]);
  } finally {
    release();
    await controller.dispose();
  }
});
