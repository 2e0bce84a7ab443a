import { expect, it } from "vitest";

import { summaryOf, usageTextOf } from "./summary";

const thread = (values: object | null): never => ({ thread_id: "id-7", metadata: { by: "ann" }, values }) as never;

it("summarises a thread by its first message, its fields or its id", () => {
  expect(summaryOf(thread({ messages: [{ type: "human", content: "Hi" }] }))).toBe("Hi");
  expect(summaryOf(thread({ draft: "", log: [], n: 3, topic: "glass" }))).toBe("n: 3, topic: glass");
  expect(summaryOf(thread({}))).toBe("id-7");
  expect(summaryOf(thread(null))).toBe("id-7");
});

it("describes the tokens and the cost of a thread", () => {
  const ai = (usage: object): object => ({ type: "ai", content: "", usage });
  const messages = [ai({ input: 1200, output: 30, cost: 0.05 }), ai({ input: 1, output: 2 })];
  expect(usageTextOf(thread({ messages }))).toBe("1,201 tokens in, 32 out · $0.05");
  expect(usageTextOf(thread({ messages: messages.slice(1) }))).toBe("1 tokens in, 2 out");
  expect(usageTextOf(thread({ messages: [{ type: "human", content: "Hi" }] }))).toBeNull();
  expect(usageTextOf(thread(null))).toBeNull();
});
