import { expect, it } from "vitest";

import { diff } from "./diff";

const cases: [about: string, before: object, after: object, paths: string[]][] = [
  ["equal states", { a: 1, b: [{ c: 1 }] }, { a: 1, b: [{ c: 1 }] }, []],
  ["a changed field", { a: 1 }, { a: 2 }, ["changed a"]],
  ["a list that grew", { a: [1] }, { a: [1, 2, 3] }, ["added a[1]", "added a[2]"]],
  ["a nested change", { a: { b: [{ c: 1 }] } }, { a: { b: [{ c: 2 }] } }, ["changed a.b[0].c"]],
  ["a removed field", { a: 1, b: 2 }, { b: 2 }, ["removed a"]],
  ["a new empty field", {}, { a: [], b: {}, c: null, d: 0 }, ["added d"]],
  ["a changed type", { a: [1] }, { a: { 0: 1 } }, ["changed a"]],
];

it.each(cases)("finds the differences of %s", (_, before, after, paths) => {
  const found = diff(before as never, after as never);
  expect(found.map((it) => `${it.kind} ${it.path}`)).toEqual(paths);
});
