// AG-UI's own client: it validates every event and the order of the events.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, load, URL } from "./packages.mjs";

const { HttpAgent, verifyEvents, buildResumeArray } = load("@ag-ui/client");
const { lastValueFrom, toArray } = load("rxjs");

const newAgent = (graph, options) => new HttpAgent({ url: `${URL}/ag-ui/${graph}`, ...options });

const newInput = (more) => ({
  threadId: randomUUID(),
  runId: randomUUID(),
  protocolVersion: "1.0",
  state: {},
  messages: [],
  tools: [],
  context: [],
  forwardedProps: {},
  ...more,
});

const user = (text) => ({ id: randomUUID(), role: "user", content: text });

/** Runs an agent and returns its events, as far as the client accepts them. */
const events = (graph, input) =>
  lastValueFrom(newAgent(graph).run(newInput(input)).pipe(verifyEvents(false), toArray()));

const ofType = (events, type) => events.filter((it) => it.type === type);

for (const [graph, input] of [
  ["tiny", { state: { value: "x" } }],
  ["fanout", { state: { items: ["a", "b", "c"] } }],
  ["parent", { state: { log: [] } }],
  ["approval", { state: { topic: "rust" } }],
  ["chat", { messages: [user("hi")] }],
  ["agent", { messages: [user("add")] }],
]) {
  check(`AG-UI: the events of ${graph} are valid`, async () => {
    const received = await events(graph, input);
    assert.equal(received[0].type, "RUN_STARTED");
    assert.equal(received.at(-1).type, "RUN_FINISHED");
    assert.ok(ofType(received, "STEP_STARTED").length > 0);
    assert.ok(ofType(received, "STATE_SNAPSHOT").length > 0);
  });
}

check("AG-UI: a failed run ends with its error", async () => {
  const received = await events("fail", { state: { log: [] } });
  assert.deepEqual(received.at(-1).type, "RUN_ERROR");
  assert.match(received.at(-1).message, /boom/);
});

check("AG-UI: a conversation continues on its thread", async () => {
  // The id of a thread can be any text.
  const agent = newAgent("chat", { threadId: `chat of ${randomUUID()}` });
  agent.setMessages([user("hello you")]);
  const first = await agent.runAgent();
  assert.deepEqual(first.newMessages.map((it) => it.content), ["you said hello you"]);
  agent.addMessage(user("again"));
  await agent.runAgent();
  const texts = agent.messages.map((it) => it.content);
  assert.deepEqual(texts, ["hello you", "you said hello you", "again", "you said again"]);
});

check("AG-UI: tool calls, reasoning and custom events are reported", async () => {
  const received = await events("agent", { messages: [user("add")] });
  const args = ofType(received, "TOOL_CALL_ARGS").map((it) => it.delta);
  assert.deepEqual(args, ['{"a":', "1}"]);
  assert.deepEqual(ofType(received, "TOOL_CALL_START").map((it) => it.toolCallName), ["add"]);
  assert.deepEqual(ofType(received, "TOOL_CALL_RESULT").map((it) => it.content), ["2"]);
  assert.deepEqual(ofType(received, "REASONING_MESSAGE_CONTENT").map((it) => it.delta), ["hm"]);
  assert.deepEqual(ofType(received, "CUSTOM").map((it) => it.value), [{ progress: 1 }]);
  const [{ messages }] = ofType(received, "MESSAGES_SNAPSHOT");
  assert.deepEqual(messages.map((it) => it.role), ["user", "assistant", "tool", "assistant"]);
  assert.equal(messages[1].toolCalls[0].function.arguments, '{"a":1}');
});

check("AG-UI: an interrupt is answered", async () => {
  const threadId = randomUUID();
  const received = await events("approval", { threadId, state: { topic: "rust" } });
  const { outcome } = received.at(-1);
  assert.equal(outcome.type, "interrupt");
  assert.equal(outcome.interrupts[0].metadata.value.question, "approve?");
  const { id } = outcome.interrupts[0];
  const resume = buildResumeArray(outcome.interrupts, { [id]: { status: "resolved", payload: "yes" } });
  // Clients send back the state that they have received.
  const state = ofType(received, "STATE_SNAPSHOT").at(-1).snapshot;
  const resumed = await events("approval", { threadId, state, resume });
  assert.equal(resumed.at(-1).outcome.type, "success");
  const final = ofType(resumed, "STATE_SNAPSHOT").at(-1).snapshot;
  assert.equal(final.decision, "yes");
  assert.deepEqual(final.log, ["draft", "review", "publish"]);
});
