import { expect, it } from "vitest";

import { answersOf, isPaused, pendingInterrupts } from "./interrupts";

const task = (name: string, ids: string[]): object => ({ name, interrupts: ids.map((id) => ({ id, value: "?" })) });
const at = (tasks: object[], next: string[]): never => ({ tasks, next }) as never;

it("finds the questions of all pending nodes", () => {
  const found = pendingInterrupts(at([task("a", ["1", "2"]), task("b", ["3"]), task("c", [])], ["a", "b", "c"]));
  expect(found.map((it) => `${it.node} ${it.id}`)).toEqual(["a 1", "a 2", "b 3"]);
  expect(pendingInterrupts(null)).toEqual([]);
});

it("is paused only if nodes are pending and none asks a question", () => {
  expect(isPaused(at([task("a", [])], ["a"]))).toBe(true);
  expect(isPaused(at([task("a", ["1"])], ["a"]))).toBe(false);
  expect(isPaused(at([], []))).toBe(false);
});

it("sends texts and JSON by interrupt id", () => {
  const questions = pendingInterrupts(at([task("a", ["1", "2"])], ["a"]));
  const drafts = { 1: { text: "[yes]", json: false, decisions: [] }, 2: { text: "[true]", json: true, decisions: [] } };
  expect(answersOf(questions, drafts)).toEqual({ value: { 1: "[yes]", 2: [true] } });
  expect(answersOf(questions, { 2: { text: "[", json: true, decisions: [] } })).toMatchObject({ id: "2" });
});
