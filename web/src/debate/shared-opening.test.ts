import { expect, test } from "vitest";

import { sharedOpening } from "./shared-opening";

const critic = (content: string) => ({ round: 1, role: "critic", content });
const maker = { round: 1, role: "D1", content: "No." };

test("an opening that all conversations share is found", () => {
  expect(sharedOpening([[critic("Why?"), maker], [critic("Why?")]])).toEqual(critic("Why?"));
});

test("different or missing openings are not shared", () => {
  expect(sharedOpening([[critic("Why?")], [critic("How?")]])).toBeNull();
  expect(sharedOpening([[critic("Why?")], []])).toBeNull();
  expect(sharedOpening([[critic("Why?")]])).toBeNull();
  expect(sharedOpening([[maker], [maker]])).toBeNull();
});
