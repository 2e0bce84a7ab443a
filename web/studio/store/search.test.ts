import { expect, it } from "vitest";

import { withWords } from "./search";

const item = (key: string, text: string): never => ({ key, value: { text } }) as never;

it("finds the items that contain all words", () => {
  const items = [item("a", "red glass"), item("b", "green glass")];
  expect(withWords(items, "GLASS red").map((it) => it.key)).toEqual(["a"]);
  expect(withWords(items, "b").map((it) => it.key)).toEqual(["b"]);
  expect(withWords(items, "")).toHaveLength(2);
});
