import { describe, expect, it } from "vitest";

import { conversation, isMessage, messagesIn, textOf, toolCallsOf } from "./messages";
import { totalUsage } from "./usage";

const ai = (more: object): never => ({ type: "ai", content: "", ...more }) as never;

describe("messages", () => {
  it("are recognised by their type and content", () => {
    expect(isMessage({ type: "ai", content: "" })).toBe(true);
    expect(isMessage({ type: "AIMessageChunk", content: "" })).toBe(true);
    expect(isMessage({ type: "report", content: "" })).toBe(false);
    expect(isMessage({ type: "ai" })).toBe(false);
    expect(messagesIn({ messages: [{ type: "human", content: "x" }, 7] })).toHaveLength(1);
  });

  it("have a text, also in blocks", () => {
    expect(textOf({ content: [{ type: "text", text: "a" }, { type: "image" }, "b"] })).toBe("ab");
    expect(textOf({ content: null })).toBe("");
  });

  it("have tool calls", () => {
    expect(toolCallsOf(ai({ tool_calls: [{ id: "1", name: "f", args: { x: 1 } }, null] }))).toEqual([
      { id: "1", name: "f", args: { x: 1 } },
    ]);
    expect(toolCallsOf(ai({ tool_calls: "none" }))).toEqual([]);
  });

  it("are not shown twice when a streamed one is stored", () => {
    const all = conversation([ai({ id: "1" })], [ai({ id: "1" }), ai({ id: "2" })]);
    expect(all.map((it) => it["id"])).toEqual(["1", "2"]);
  });
});

describe("the usage", () => {
  it("is the sum over all messages that report it", () => {
    const messages = [
      ai({ usage_metadata: { input_tokens: 10, output_tokens: 2, cost: 0.5 } }),
      ai({ usage: { input: 5, output: 1 } }),
      ai({}),
    ];
    expect(totalUsage(messages)).toEqual({ input: 15, output: 3, cost: 0.5 });
  });

  it("is unknown if no message reports it", () => {
    expect(totalUsage([ai({}), ai({ usage: null })])).toBeNull();
    expect(totalUsage([ai({ usage: { input: 1, output: 1 } })])?.cost).toBeNull();
  });
});
