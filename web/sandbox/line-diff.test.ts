import { expect, test } from "vitest";

import { lineDiff } from "./line-diff";

const shown = (before: string, after: string): string[] =>
  lineDiff(before, after).map((it) => `${{ same: " ", added: "+", removed: "-" }[it.kind]}${it.text}`);

test("changed lines are replaced, and common lines are kept", () => {
  expect(shown("import json\nopen('x')\nprint(1)\n", "import json\nprint(1)\nprint(2)\n")).toEqual([
    " import json",
    "-open('x')",
    " print(1)",
    "+print(2)",
  ]);
});

test("equal programs have no changes, and different ones have no common lines", () => {
  expect(shown("a\nb", "a\nb")).toEqual([" a", " b"]);
  expect(shown("a", "b")).toEqual(["-a", "+b"]);
});

test("line numbers refer to the program that contains the line", () => {
  expect(lineDiff("x\ny", "y\nz").map((it) => it.number)).toEqual([1, 1, 2]);
});
