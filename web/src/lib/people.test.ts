import { expect, it } from "vitest";

import { displayName, placeWithNames, roleName } from "./people";
import type { Config } from "./types";

const person = (id: string, name: string): Config["critic"] => ({
  id,
  name,
  system_prompt: "",
  model: "scripted/board",
  temperature: 0,
});

const config: Config = {
  synthesizers: [person("financial_synthesizer", "Financial data provider")],
  inferences: [],
  analysts: [{ ...person("analyst_1", "Capital steward"), moves: [] }],
  critic: person("critic", "Critic"),
  decision_makers: [person("D1", "Growth Strategist"), person("D2", "Operational Pragmatist")],
  metrics: [{ id: "impact", name: "Impact", question: "" }],
  rounds: 1,
  top_k: 3,
};

it("names agents, metrics and roles", () => {
  expect(displayName(config, "D2")).toBe("Operational Pragmatist");
  expect(displayName(config, "impact")).toBe("Impact");
  expect(displayName(config, "D9")).toBe("D9");
  expect(roleName(config, "D1 scoring")).toBe("Growth Strategist, scoring");
  expect(roleName(config, "financial_synthesizer")).toBe("Financial data provider");
  expect(roleName(config, "not part of the result")).toBe("not part of the result");
});

it("names agents and conversations in places", () => {
  expect(placeWithNames(config, "i2, round 1, critic")).toBe("debate with Operational Pragmatist, round 1, Critic");
  expect(placeWithNames(config, "m3, round 2, critic to D1")).toBe("m3, round 2, Critic to Growth Strategist");
  expect(placeWithNames(config, "analyst_1")).toBe("Capital steward");
  expect(placeWithNames(config, "i9, reasoning 1")).toBe("i9, reasoning 1");
});
