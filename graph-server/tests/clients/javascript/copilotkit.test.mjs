// CopilotKit's agent for LangGraph. It uses LangGraph's API and produces AG-UI events.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, load, newClient, until, URL } from "./packages.mjs";

const { LangGraphAgent, LangGraphHttpAgent } = load("@ag-ui/langgraph");
const client = newClient();

const newAgent = (graphId, options) =>
  new LangGraphAgent({ deploymentUrl: URL, graphId, threadId: randomUUID(), ...options });

const user = (text) => ({ id: randomUUID(), role: "user", content: text });

/** Runs an agent and returns its events. */
async function run(agent, input = {}, onEvent = () => {}) {
  const events = [];
  await agent.runAgent(input, {
    onEvent: ({ event }) => {
      events.push(event);
      onEvent(event);
    },
  });
  return events;
}

const ofType = (events, type) => events.filter((it) => it.type === type);
const joined = (events, type) => ofType(events, type).map((it) => it.delta).join("");

check("CopilotKit: an answer is streamed, and the conversation continues", async () => {
  const agent = newAgent("chat");
  agent.setMessages([user("hello you")]);
  const events = await run(agent);
  assert.ok(ofType(events, "TEXT_MESSAGE_CONTENT").length >= 2);
  assert.equal(joined(events, "TEXT_MESSAGE_CONTENT"), "you said hello you");
  assert.equal(ofType(events, "TEXT_MESSAGE_END").length, 1);
  agent.addMessage(user("again"));
  await run(agent);
  const texts = agent.messages.map((it) => it.content);
  assert.deepEqual(texts, ["hello you", "you said hello you", "again", "you said again"]);
});

check("CopilotKit: tool calls, their results and custom events are reported", async () => {
  const agent = newAgent("agent");
  agent.setMessages([user("add")]);
  const events = await run(agent);
  assert.deepEqual(ofType(events, "TOOL_CALL_START").map((it) => it.toolCallName), ["add"]);
  assert.equal(joined(events, "TOOL_CALL_ARGS"), '{"a":1}');
  assert.deepEqual(ofType(events, "TOOL_CALL_RESULT").map((it) => it.content), ["2"]);
  assert.deepEqual(ofType(events, "CUSTOM").map((it) => it.value), [{ progress: 1 }]);
  const steps = new Set(ofType(events, "STEP_STARTED").map((it) => it.stepName));
  assert.deepEqual([...steps], ["model", "tools", "answer"]);
  assert.equal(joined(events, "REASONING_MESSAGE_CONTENT"), "hm");
  const messages = agent.messages.filter((it) => it.role !== "reasoning");
  assert.deepEqual(messages.map((it) => it.role), ["user", "assistant", "tool", "assistant"]);
  assert.equal(messages[3].content, "It is 2.");
});

check("CopilotKit: the state of the page and of the graph are synchronised", async () => {
  const agent = newAgent("tiny");
  agent.setState({ value: "x" });
  const events = await run(agent);
  assert.ok(ofType(events, "STATE_SNAPSHOT").length >= 2);
  assert.equal(agent.state.value, "xab");
  agent.setState({ value: "y" });
  await run(agent);
  assert.equal(agent.state.value, "yab");
  assert.equal(agent.state.count, 4);
});

check("CopilotKit: an interrupt is answered with `resume`", async () => {
  const agent = newAgent("approval", { emitInterruptOutcome: true });
  agent.setState({ topic: "rust" });
  const events = await run(agent);
  const { outcome } = ofType(events, "RUN_FINISHED")[0];
  assert.equal(outcome.type, "interrupt");
  const [{ id, metadata }] = outcome.interrupts;
  assert.equal(metadata.langgraph.raw.question, "approve?");
  assert.equal(agent.state.draft, "draft about rust");
  await run(agent, { resume: [{ interruptId: id, status: "resolved", payload: "yes" }] });
  assert.equal(agent.state.decision, "yes");
  assert.deepEqual(agent.state.log, ["draft", "review", "publish"]);
});

check("CopilotKit: a tool call is approved with `command`", async () => {
  const agent = newAgent("agent");
  agent.setMessages([user("mail")]);
  const events = await run(agent);
  const [interrupt] = ofType(events, "CUSTOM").filter((it) => it.name === "on_interrupt");
  assert.equal(JSON.parse(interrupt.value).action_requests[0].name, "send_mail");
  const command = { resume: { decisions: [{ type: "approve" }] } };
  const resumed = await run(agent, { forwardedProps: { command } });
  assert.deepEqual(ofType(resumed, "TOOL_CALL_RESULT").map((it) => it.content), ["sent to ann"]);
  assert.equal(joined(resumed, "TOOL_CALL_ARGS"), '{"to":"ann"}');
  assert.equal(agent.messages.at(-1).content, "It is sent to ann.");
});

check("CopilotKit: a run is cancelled", async () => {
  const agent = newAgent("agent");
  agent.setMessages([user("wait")]);
  let isAborted = false;
  const aborted = run(agent, {}, (event) => {
    if (event.type === "TEXT_MESSAGE_CONTENT" && !isAborted) {
      isAborted = true;
      agent.abortRun();
    }
  });
  // The agent does not end the message that was arriving, and its own client reports this.
  await aborted.catch((error) => assert.match(error.message, /text messages are still active/));
  assert.ok(isAborted);
  const [{ status }] = await until(async () => {
    const runs = await client.runs.list(agent.threadId);
    return runs[0].status === "running" ? undefined : runs;
  });
  assert.equal(status, "interrupted");
});

check("CopilotKit: an earlier message is answered again", async () => {
  const agent = newAgent("chat");
  const question = user("first");
  agent.setMessages([question]);
  await run(agent);
  agent.addMessage(user("second"));
  await run(agent);
  // The agent forks the thread if the page has dropped messages.
  agent.setMessages([{ id: randomUUID(), role: "system", content: "be brief" }, question]);
  const events = await run(agent);
  assert.equal(joined(events, "TEXT_MESSAGE_CONTENT"), "you said first");
  const { values } = await client.threads.getState(agent.threadId);
  assert.deepEqual(values.messages.map((it) => it.content), ["first", "you said first"]);
});

check("CopilotKit: the error of a run is reported", async () => {
  const events = [];
  const failed = run(newAgent("fail"), {}, (event) => events.push(event));
  await failed.catch(() => {});
  assert.match(ofType(events, "RUN_ERROR")[0].message, /boom/);
});

check("CopilotKit: the agent for AG-UI endpoints works", async () => {
  const agent = new LangGraphHttpAgent({ url: `${URL}/ag-ui/chat`, threadId: randomUUID() });
  agent.setMessages([user("hello you")]);
  const events = await run(agent);
  assert.equal(joined(events, "TEXT_MESSAGE_CONTENT"), "you said hello you");
  assert.equal(agent.messages[1].content, "you said hello you");
});
