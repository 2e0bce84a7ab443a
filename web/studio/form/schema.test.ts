import { describe, expect, it } from "vitest";

import { fieldsOf, valueOf } from "./schema";

const schema = {
  type: "object",
  required: ["topic"],
  properties: {
    topic: { type: "string", title: "Topic", description: "What to write about" },
    style: { enum: ["short", "long", 3] },
    rounds: { type: "integer", default: 2 },
    rate: { anyOf: [{ type: "number" }, { type: "null" }] },
    fast: { type: ["boolean", "null"] },
    tags: { type: "array", items: { type: "string" } },
    messages: { type: "array", items: { $ref: "#/$defs/Message" } },
    extra: { $ref: "#/$defs/Extra" },
  },
  $defs: { Message: { type: "object" }, Extra: { type: "object" } },
};

describe("the fields of a schema", () => {
  it("have a kind", () => {
    const kinds = fieldsOf(schema)!.map((it) => [it.name, it.kind.type]);
    expect(Object.fromEntries(kinds)).toEqual({
      topic: "text",
      style: "choice",
      rounds: "number",
      rate: "number",
      fast: "boolean",
      tags: "texts",
      messages: "messages",
      extra: "json",
    });
  });

  it("have titles, descriptions and defaults", () => {
    const [topic, , rounds] = fieldsOf(schema)!;
    expect(topic).toMatchObject({ title: "Topic", description: "What to write about", required: true });
    expect(rounds).toMatchObject({ title: "rounds", initial: "2", required: false });
  });

  it("need an object with properties", () => {
    expect(fieldsOf(null)).toBeNull();
    expect(fieldsOf({})).toBeNull();
    expect(fieldsOf({ type: "object", properties: {} })).toBeNull();
  });

  it("survive a schema that refers to itself", () => {
    const circle = { properties: { a: { $ref: "#/$defs/A" } }, $defs: { A: { $ref: "#/$defs/A" } } };
    expect(fieldsOf(circle)![0]!.kind).toEqual({ type: "json" });
  });
});

describe("the value of a form", () => {
  const fields = fieldsOf(schema)!;

  it("leaves out empty fields", () => {
    expect(valueOf(fields, { topic: "glass" })).toEqual({ value: { topic: "glass", rounds: 2 } });
  });

  it("has the types of the schema", () => {
    const draft = {
      topic: "t",
      style: "3",
      rounds: "4",
      rate: "0.5",
      fast: "true",
      tags: "a\n\nb c",
      messages: "Hi",
      extra: '{"k": [1]}',
    };
    expect(valueOf(fields, draft)).toEqual({
      value: {
        topic: "t",
        style: 3,
        rounds: 4,
        rate: 0.5,
        fast: true,
        tags: ["a", "b c"],
        messages: [{ type: "human", content: "Hi" }],
        extra: { k: [1] },
      },
    });
  });

  it("names the invalid field", () => {
    expect(valueOf(fields, {})).toEqual({ field: "topic", problem: "Enter Topic." });
    expect(valueOf(fields, { topic: "t", rounds: "2.5" })).toMatchObject({ field: "rounds" });
    expect(valueOf(fields, { topic: "t", rate: "x" })).toMatchObject({ field: "rate" });
    expect(valueOf(fields, { topic: "t", extra: "{" })).toMatchObject({ field: "extra" });
  });
});
