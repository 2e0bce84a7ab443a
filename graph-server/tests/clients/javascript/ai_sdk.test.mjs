// The AI SDK's transport and message reader: they validate every part of the stream.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { check, load, URL } from "./packages.mjs";

const { DefaultChatTransport, readUIMessageStream } = load("ai");

const user = (text) => ({ id: randomUUID(), role: "user", parts: [{ type: "text", text }] });

/** Sends messages to a graph and returns the message that the stream creates. */
async function send(graph, chatId, messages, { trigger = "submit-message", body } = {}) {
  const transport = new DefaultChatTransport({ api: `${URL}/ai-sdk/${graph}`, body });
  const stream = await transport.sendMessages({ chatId, messages, trigger });
  let message;
  const errors = [];
  const onError = (error) => errors.push(error);
  for await (const state of readUIMessageStream({ stream, onError })) message = state;
  if (errors.length > 0) throw errors[0];
  return message;
}

const textOf = (message) => message.parts.filter((it) => it.type === "text").map((it) => it.text).join("|");

check("AI SDK: a conversation continues on its thread", async () => {
  const chat = randomUUID();
  const [first, second] = [user("hello you"), user("again")];
  const answer = await send("chat", chat, [first]);
  assert.equal(answer.role, "assistant");
  assert.equal(textOf(answer), "you said hello you");
  assert.equal(textOf(await send("chat", chat, [first, answer, second])), "you said again");
});

check("AI SDK: an answer is regenerated", async () => {
  const chat = "any text";
  const question = user("hello");
  const answer = await send("chat", chat, [question]);
  const again = await send("chat", chat, [question], { trigger: "regenerate-message" });
  assert.equal(textOf(again), "you said hello");
  assert.notEqual(again.id, answer.id);
});

check("AI SDK: tool calls and reasoning are parts of the message", async () => {
  const message = await send("agent", randomUUID(), [user("add")]);
  const tool = message.parts.find((it) => it.type === "dynamic-tool");
  assert.equal(tool.state, "output-available");
  assert.deepEqual([tool.toolName, tool.input, tool.output], ["add", { a: 1 }, "2"]);
  assert.equal(message.parts.find((it) => it.type === "reasoning").text, "hm");
  assert.deepEqual(message.parts.find((it) => it.type === "data-custom").data, { progress: 1 });
  assert.equal(textOf(message), "It is 2.");
});

check("AI SDK: an interrupt is a part of the message, and is answered", async () => {
  const chat = randomUUID();
  const message = await send("approval", chat, [user("ignored")]);
  const interrupt = message.parts.find((it) => it.type === "data-interrupt").data;
  assert.equal(interrupt.value.question, "approve?");
  await send("approval", chat, [], { body: { resume: { [interrupt.id]: "yes" } } });
  const none = await fetch(`${URL}/ai-sdk/approval/${chat}/stream`);
  assert.equal(none.status, 204);
});

check("AI SDK: a failed run ends with its error", async () => {
  await assert.rejects(send("fail", randomUUID(), [user("x")]), /boom/);
});
