// React's `useStream` of the SDK, rendered without a browser.
import assert from "node:assert/strict";

import { check, newClient, until, user } from "./packages.mjs";
import { renderStream as render } from "./react.mjs";

const client = newClient();

check("the hook streams an answer into its messages", async () => {
  let thread;
  const onThreadId = (id) => (thread = id);
  const rendered = render({ assistantId: "chat", onThreadId, messagesKey: "messages" });
  try {
    await until(() => rendered.current);
    await rendered.current.submit(user("hello you"));
    await until(() => !rendered.current.isLoading && rendered.current.messages.length === 2);
    assert.equal(rendered.current.messages[1].content, "you said hello you");
    const { values } = await client.threads.getState(thread);
    assert.equal(values.messages.length, 2);
  } finally {
    rendered.root.unmount();
  }
});

check("the hook shows an interrupt and resumes it", async () => {
  const rendered = render({ assistantId: "approval", onThreadId: () => {}, fetchStateHistory: true });
  try {
    await until(() => rendered.current);
    await rendered.current.submit({ topic: "cats" });
    await until(() => rendered.current.interrupt);
    assert.equal(rendered.current.interrupt.value.question, "approve?");
    await rendered.current.submit(undefined, { command: { resume: "yes" } });
    await until(() => rendered.current.values.decision === "yes" && !rendered.current.isLoading);
    assert.ok(rendered.current.history.length > 0);
  } finally {
    rendered.root.unmount();
  }
});

check("the hook loads an existing thread and reports errors", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: user("first") });
  const loaded = render({ assistantId: "chat", threadId });
  try {
    await until(() => loaded.current?.messages.length === 2);
    assert.equal(loaded.current.messages[1].content, "you said first");
  } finally {
    loaded.root.unmount();
  }
  const failed = render({ assistantId: "fail" });
  try {
    await until(() => failed.current);
    await failed.current.submit({ log: [] });
    await until(() => failed.current.error);
    assert.match(String(failed.current.error), /boom/);
  } finally {
    failed.root.unmount();
  }
});
