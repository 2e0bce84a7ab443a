// assistant-ui's runtime for LangGraph.
import assert from "node:assert/strict";

import { check, load, newClient, until } from "./packages.mjs";
import { React, render } from "./react.mjs";

const {
  unstable_createLangGraphStream: createStream,
  useLangGraphInterruptState,
  useLangGraphRuntime,
  useLangGraphSendCommand,
} = load("@assistant-ui/react-langgraph");
const { AssistantRuntimeProvider } = load("@assistant-ui/core/react");
const client = newClient();

/** Returns the checkpoint at which the thread contained exactly these messages. */
async function getCheckpointId(thread, messages) {
  const ids = JSON.stringify(messages.map((it) => it.id));
  const history = await client.threads.getHistory(thread);
  const found = history.find((it) => JSON.stringify(it.values.messages?.map((it) => it.id)) === ids);
  return found?.checkpoint.checkpoint_id ?? null;
}

/** Renders the runtime as a page does. */
function open(assistantId, options) {
  const page = {};
  const stream = createStream({ client, assistantId, ...options });
  function Chat() {
    page.interrupt = useLangGraphInterruptState();
    page.sendCommand = useLangGraphSendCommand();
    return null;
  }
  const root = render(() => {
    page.runtime = useLangGraphRuntime({
      stream,
      create: async () => {
        const { thread_id } = await client.threads.create();
        page.thread = thread_id;
        return { externalId: thread_id };
      },
      load: async (thread) => {
        const { values, tasks } = await client.threads.getState(thread);
        return { messages: values.messages, interrupts: tasks[0]?.interrupts };
      },
      getCheckpointId,
      unstable_allowCancellation: true,
    });
    return React.createElement(AssistantRuntimeProvider, { runtime: page.runtime }, React.createElement(Chat));
  });
  page.close = () => root.unmount();
  page.state = () => page.runtime.thread.getState();
  page.parts = () => page.state().messages.flatMap((it) => it.content);
  page.texts = () => page.parts().filter((it) => it.type === "text").map((it) => it.text);
  page.call = () => page.parts().find((it) => it.type === "tool-call");
  page.idle = () => until(() => !page.state().isRunning);
  return page;
}

/** Waits until the page is shown, and sends a message. */
async function send(page, text) {
  await until(() => page.sendCommand);
  page.runtime.thread.append(text);
}

for (const streamMode of [["messages", "updates", "custom"], ["messages-tuple", "updates"], ["values"]]) {
  check(`assistant-ui: a conversation is streamed with the modes ${streamMode}`, async () => {
    const page = open("chat", { streamMode });
    try {
      await send(page, "hello you");
      await until(() => page.texts()[1] === "you said hello you");
      await page.idle();
      page.runtime.thread.append("again");
      await until(() => page.texts()[3] === "you said again");
      await page.idle();
      assert.deepEqual(page.state().messages.map((it) => it.role), ["user", "assistant", "user", "assistant"]);
    } finally {
      page.close();
    }
  });
}

check("assistant-ui: a tool call is shown with its result", async () => {
  const page = open("agent");
  try {
    await send(page, "add");
    await until(() => page.texts().includes("It is 2."));
    await page.idle();
    const { toolName, argsText, result } = page.call();
    assert.deepEqual([toolName, JSON.parse(argsText), String(result)], ["add", { a: 1 }, "2"]);
  } finally {
    page.close();
  }
});

check("assistant-ui: an interrupt is shown and answered", async () => {
  const page = open("agent");
  try {
    await send(page, "mail");
    await until(() => page.interrupt?.value);
    await page.idle();
    assert.equal(page.interrupt.value.action_requests[0].name, "send_mail");
    assert.equal(page.call().toolName, "send_mail");
    page.sendCommand({ resume: { decisions: [{ type: "approve" }] } });
    await until(() => page.texts().includes("It is sent to ann."));
    await page.idle();
    assert.equal(page.interrupt, undefined);
    assert.equal((await client.threads.get(page.thread)).status, "idle");
  } finally {
    page.close();
  }
});

check("assistant-ui: tokens are shown while the model runs, and the run is cancelled", async () => {
  const page = open("agent");
  try {
    await send(page, "wait");
    const length = () => page.texts()[1]?.length ?? 0;
    const first = await until(length);
    await until(() => length() > first);
    assert.ok(page.state().isRunning);
    page.runtime.thread.cancelRun();
    await page.idle();
    const [run] = await until(async () => {
      const runs = await client.runs.list(page.thread);
      return runs[0].status === "running" ? undefined : runs;
    });
    assert.equal(run.status, "interrupted");
    await until(async () => (await client.threads.get(page.thread)).status !== "busy");
    page.runtime.thread.append("add");
    await until(() => page.texts().includes("It is 2."));
  } finally {
    page.close();
  }
});

check("assistant-ui: an answer is regenerated from its checkpoint", async () => {
  const page = open("chat");
  try {
    await send(page, "hello");
    await until(() => page.texts()[1] === "you said hello");
    await page.idle();
    await until(async () => (await client.threads.get(page.thread)).status === "idle");
    page.runtime.thread.getMessageByIndex(1).reload();
    await until(async () => (await client.runs.list(page.thread)).length === 2);
    await page.idle();
    await until(() => page.texts()[1] === "you said hello");
    const { values } = await client.threads.getState(page.thread);
    assert.equal(values.messages.length, 2);
  } finally {
    page.close();
  }
});
