// The AI SDK's adapter for LangGraph. It uses LangGraph's API and produces the parts of the AI SDK's messages.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, load, URL } from "./packages.mjs";

const { LangSmithDeploymentTransport, toBaseMessages, toUIMessageStream } = load("@ai-sdk/langchain");
const { RemoteGraph } = load("@langchain/langgraph/remote");
const { readUIMessageStream } = load("ai");

const user = (text) => ({ id: randomUUID(), role: "user", parts: [{ type: "text", text }] });

/** Returns the text of the message that a stream creates. */
async function textOf(stream) {
  let message;
  const errors = [];
  const onError = (error) => errors.push(error);
  for await (const state of readUIMessageStream({ stream, onError })) message = state;
  if (errors.length > 0) throw errors[0];
  return message.parts.filter((it) => it.type === "text").map((it) => it.text).join("|");
}

check("@ai-sdk/langchain: the transport of a page runs a graph", async () => {
  const transport = new LangSmithDeploymentTransport({ url: URL, graphId: "chat" });
  const chat = { chatId: randomUUID(), trigger: "submit-message", messages: [user("hello you")] };
  assert.equal(await textOf(await transport.sendMessages(chat)), "you said hello you");
});

check("@ai-sdk/langchain: the stream of a graph is converted", async () => {
  const graph = new RemoteGraph({ url: URL, graphId: "chat" });
  const input = { messages: await toBaseMessages([user("again")]) };
  const stream = await graph.stream(input, { streamMode: ["values", "messages"] });
  assert.equal(await textOf(toUIMessageStream(stream)), "you said again");
});
