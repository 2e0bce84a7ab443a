import { expect, it } from "vitest";

import { isolationText } from "./isolation";

it("names the level and unbounded memory", () => {
  expect(isolationText({ backend: "kvm-process", level: "vm" })).toBe("isolation: vm");
  expect(isolationText({ backend: "jail", level: "process", memory_unbounded: true })).toBe(
    "isolation: process, shares the host's kernel; memory NOT BOUNDED by a kernel",
  );
});
