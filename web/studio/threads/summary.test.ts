import { expect, it } from "vitest";

import { matches, summaryOf } from "./summary";

const thread = (values: object | null): never => ({ thread_id: "id-7", metadata: { by: "ann" }, values }) as never;

it("summarizes a thread by its first message, its fields or its id", () => {
  expect(summaryOf(thread({ messages: [{ type: "human", content: "Hi" }] }))).toBe("Hi");
  expect(summaryOf(thread({ draft: "", log: [], n: 3, topic: "glass" }))).toBe("n: 3, topic: glass");
  expect(summaryOf(thread({}))).toBe("id-7");
  expect(summaryOf(thread(null))).toBe("id-7");
});

it("finds threads by words in their state, metadata and id", () => {
  const one = thread({ topic: "Green glass" });
  expect(["", "GLASS green", "id-7", "ann"].map((it) => matches(one, it))).toEqual([true, true, true, true]);
  expect(matches(one, "green paper")).toBe(false);
});
