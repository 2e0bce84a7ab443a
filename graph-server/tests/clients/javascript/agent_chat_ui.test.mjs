// The flows of agent-chat-ui, with the same hook, options and calls: https://github.com/langchain-ai/agent-chat-ui
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, load, newClient, until, URL } from "./packages.mjs";
import { React, render } from "./react.mjs";

const { useStream } = load("@langchain/langgraph-sdk/react");
const client = newClient();

/** Options of every run that the page starts, except answers to interrupts. */
const RUN = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };

/** Renders the hook with the options of the page, whose address contains the id of the thread. */
function open(assistantId, threadInAddress = null) {
  const page = { custom: [], stream: undefined, thread: undefined };
  const root = render(() => {
    const [threadId, setThreadId] = React.useState(threadInAddress);
    page.thread = threadId;
    page.stream = useStream({
      apiUrl: URL,
      assistantId,
      threadId,
      fetchStateHistory: true,
      onCustomEvent: (event) => page.custom.push(event),
      onThreadId: setThreadId,
    });
    return null;
  });
  page.close = () => root.unmount();
  page.texts = () => page.stream.messages.map(textOf);
  /** Waits until the run has ended and its history is loaded. */
  page.settled = (count) =>
    until(() => {
      const { isLoading, messages, getMessagesMetadata } = page.stream;
      const isLoaded = () => getMessagesMetadata(messages.at(-1))?.firstSeenState !== undefined;
      return !isLoading && messages.length === count && isLoaded();
    });
  return page;
}

const textOf = ({ content }) =>
  typeof content === "string" ? content : content.map((it) => it.text).join("");

const human = (text) => ({ id: randomUUID(), type: "human", content: [{ type: "text", text }] });

function send(page, text) {
  const message = human(text);
  page.stream.submit(
    { messages: [message], context: undefined },
    { ...RUN, optimisticValues: (prev) => ({ ...prev, messages: [...(prev.messages ?? []), message] }) },
  );
}

const parentOf = (page, message) => page.stream.getMessagesMetadata(message).firstSeenState.parent_checkpoint;

check("agent-chat-ui: a message is answered with tool calls, and the thread is listed", async () => {
  assert.ok((await fetch(`${URL}/info`)).ok);
  const page = open("agent");
  try {
    await until(() => page.stream);
    send(page, "add");
    await until(() => page.texts()[0] === "add");
    await page.settled(4);
    const { messages } = page.stream;
    assert.deepEqual(messages.map((it) => it.type), ["human", "ai", "tool", "ai"]);
    assert.deepEqual(messages[1].tool_calls[0].args, { a: 1 });
    assert.equal(messages[2].tool_call_id, messages[1].tool_calls[0].id);
    assert.equal(textOf(messages[3]), "It is 2.");
    assert.deepEqual(page.custom, [{ progress: 1 }]);

    const [assistant] = await client.assistants.search({ graphId: "agent" });
    for (const metadata of [{ graph_id: "agent" }, { assistant_id: assistant.assistant_id }]) {
      const threads = await client.threads.search({ metadata, limit: 100 });
      const found = threads.find((it) => it.thread_id === page.thread);
      assert.equal(textOf(found.values.messages[0]), "add");
    }
    assert.deepEqual(await client.threads.search({ metadata: { graph_id: "tiny", mark: page.thread } }), []);
  } finally {
    page.close();
  }
});

check("agent-chat-ui: a tool call is approved, edited or rejected", async () => {
  const edited = { name: "send_mail", args: { to: "bob" } };
  for (const [decision, answer] of [
    [{ type: "approve" }, "It is sent to ann."],
    [{ type: "edit", edited_action: edited }, "It is sent to bob."],
    [{ type: "reject", message: "no" }, "It is not sent."],
  ]) {
    const page = open("agent");
    try {
      await until(() => page.stream);
      send(page, "mail");
      await until(() => page.stream.interrupt && !page.stream.isLoading);
      const { value } = page.stream.interrupt;
      const [{ name, args }] = value.action_requests;
      assert.deepEqual([name, args], ["send_mail", { to: "ann" }]);
      assert.equal(value.review_configs[0].action_name, "send_mail");
      assert.ok(value.review_configs[0].allowed_decisions.includes(decision.type));
      assert.equal((await client.threads.get(page.thread)).status, "interrupted");
      page.stream.submit({}, { command: { resume: { decisions: [decision] } } });
      await page.settled(4);
      assert.equal(page.texts()[3], answer);
      assert.equal(page.stream.interrupt, undefined);
    } finally {
      page.close();
    }
  }
});

check("agent-chat-ui: an interrupt is shown when its thread is opened again", async () => {
  const { thread_id: thread } = await client.threads.create();
  await client.runs.wait(thread, "agent", { input: { messages: [human("mail")] } });
  const page = open("agent", thread);
  try {
    await until(() => page.stream?.interrupt?.value);
    assert.equal(page.stream.interrupt.value.action_requests[0].name, "send_mail");
    assert.deepEqual(page.texts(), ["mail", ""]);
    page.stream.submit({}, { command: { resume: { decisions: [{ type: "approve" }] } } });
    await page.settled(4);
    assert.equal(page.texts()[3], "It is sent to ann.");
  } finally {
    page.close();
  }
});

check("agent-chat-ui: `Mark as resolved` runs the pending node again", async () => {
  const page = open("agent");
  try {
    await until(() => page.stream);
    send(page, "mail");
    await until(() => page.stream.interrupt && !page.stream.isLoading);
    await page.stream.submit({}, { command: { goto: "__end__" } });
    assert.equal(page.stream.error, undefined);
    const { next, tasks } = await client.threads.getState(page.thread);
    assert.deepEqual(next, ["tools"]);
    assert.equal(tasks[0].interrupts.length, 1);
  } finally {
    page.close();
  }
});

check("agent-chat-ui: an answer is regenerated, and both branches can be shown", async () => {
  const page = open("agent");
  try {
    await until(() => page.stream);
    send(page, "add");
    await page.settled(4);
    const first = page.stream.messages[3];
    page.stream.submit(undefined, { ...RUN, checkpoint: parentOf(page, first) });
    await until(() => page.stream.messages[3] && page.stream.messages[3].id !== first.id);
    await page.settled(4);
    const { branch, branchOptions } = page.stream.getMessagesMetadata(page.stream.messages[3]);
    assert.equal(branchOptions.length, 2);
    assert.equal(branch, branchOptions[1]);
    page.stream.setBranch(branchOptions[0]);
    await until(() => page.stream.messages[3].id === first.id);
  } finally {
    page.close();
  }
});

check("agent-chat-ui: a message of the user is edited", async () => {
  const page = open("agent");
  try {
    await until(() => page.stream);
    send(page, "add");
    await page.settled(4);
    const edited = { type: "human", content: "mail" };
    const checkpoint = parentOf(page, page.stream.messages[0]);
    page.stream.submit({ messages: [edited] }, { ...RUN, checkpoint });
    await until(() => page.stream.interrupt && !page.stream.isLoading);
    assert.deepEqual(page.texts(), ["mail", ""]);
    page.stream.submit({}, { command: { resume: { decisions: [{ type: "approve" }] } } });
    await page.settled(4);
    assert.deepEqual(page.texts(), ["mail", "", "sent to ann", "It is sent to ann."]);
    const { branchOptions } = page.stream.getMessagesMetadata(page.stream.messages[0]);
    assert.equal(branchOptions.length, 2);
  } finally {
    page.close();
  }
});

check("agent-chat-ui: an error of a run is shown", async () => {
  const page = open("fail");
  try {
    await until(() => page.stream);
    send(page, "hello");
    await until(() => page.stream.error);
    assert.match(String(page.stream.error), /boom/);
  } finally {
    page.close();
  }
});
