import { expect, it } from "vitest";

import type { Json } from "@studio/api/types";

import { decisionsOf, draftOf, reviewedCalls } from "./tool-review";

const question: Json = {
  action_requests: [
    { name: "mail", args: { to: "ann" }, description: "Sends a mail" },
    { name: "pay", args: {} },
  ],
  review_configs: [{ action_name: "mail", allowed_decisions: ["approve", "edit"] }],
};

it("recognises reviews of tool calls", () => {
  const calls = reviewedCalls(question)!;
  expect(calls.map((it) => [it.name, it.allowed.join()])).toEqual([
    ["mail", "approve,edit"],
    ["pay", "approve,edit,reject,respond"],
  ]);
  const others: Json[] = [null, "approve?", [], {}, { action_requests: [] }, { action_requests: ["x"] }];
  expect(others.map(reviewedCalls)).toEqual(others.map(() => null));
});

it("answers each call with a decision", () => {
  const calls = reviewedCalls(question)!;
  expect(decisionsOf(calls, [])).toEqual({ value: { decisions: [{ type: "approve" }, { type: "approve" }] } });
  const drafts = [
    { ...draftOf(calls[0]!, "edit"), text: '{"to": "bob"}' },
    { ...draftOf(calls[1]!, "reject"), text: "too much" },
  ];
  expect(decisionsOf(calls, drafts)).toEqual({
    value: {
      decisions: [
        { type: "edit", edited_action: { name: "mail", args: { to: "bob" } } },
        { type: "reject", message: "too much" },
      ],
    },
  });
  expect(decisionsOf(calls, [{ kind: "edit", text: "{" }])).toHaveProperty("problem");
});
