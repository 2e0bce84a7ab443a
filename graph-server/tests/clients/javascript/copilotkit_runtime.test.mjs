// CopilotKit's runtime: a server between the page and LangGraph's API. The page is replaced by AG-UI's client.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import http from "node:http";
import { after } from "node:test";

import { check, load, newClient, URL } from "./packages.mjs";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";

const { CopilotRuntime } = load("@copilotkit/runtime/v2");
const { createCopilotNodeListener } = load("@copilotkit/runtime/v2/node");
const { LangGraphAgent } = load("@copilotkit/runtime/langgraph");
const { HttpAgent } = load("@ag-ui/client");

const newAgent = (graphId) => new LangGraphAgent({ deploymentUrl: URL, graphId });
const runtime = new CopilotRuntime({ agents: { default: newAgent("chat"), tools: newAgent("agent") } });
const server = http.createServer(createCopilotNodeListener({ runtime, basePath: "/copilotkit" }));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const runtimeUrl = `http://127.0.0.1:${server.address().port}/copilotkit`;

after(() => {
  server.close();
  server.closeAllConnections();
});

const user = (text) => ({ id: randomUUID(), role: "user", content: text });

/** Returns a client of one of the runtime's agents. */
const clientOf = (agent) => new HttpAgent({ url: `${runtimeUrl}/agent/${agent}/run`, threadId: randomUUID() });

/** Runs an agent and returns its events. */
async function run(agent, input = {}) {
  const events = [];
  await agent.runAgent(input, { onEvent: ({ event }) => void events.push(event) });
  return events;
}

const ofType = (events, type) => events.filter((it) => it.type === type);

check("CopilotKit's runtime lists its agents", async () => {
  const info = await (await fetch(`${runtimeUrl}/info`)).json();
  assert.deepEqual(Object.keys(info.agents).sort(), ["default", "tools"]);
});

check("CopilotKit's runtime streams answers and continues the conversation", async () => {
  const agent = clientOf("default");
  agent.setMessages([user("hello you")]);
  const events = await run(agent);
  assert.ok(ofType(events, "TEXT_MESSAGE_CONTENT").length >= 2);
  agent.addMessage(user("again"));
  await run(agent);
  const texts = ["hello you", "you said hello you", "again", "you said again"];
  assert.deepEqual(agent.messages.map((it) => it.content), texts);
  const { values } = await newClient().threads.getState(agent.threadId);
  assert.deepEqual(values.messages.map((it) => it.content), texts);
});

check("CopilotKit's runtime reports tool calls and their results", async () => {
  const agent = clientOf("tools");
  agent.setMessages([user("add")]);
  const events = await run(agent);
  assert.deepEqual(ofType(events, "TOOL_CALL_START").map((it) => it.toolCallName), ["add"]);
  assert.deepEqual(ofType(events, "TOOL_CALL_RESULT").map((it) => it.content), ["2"]);
  assert.equal(agent.messages.at(-1).content, "It is 2.");
});
