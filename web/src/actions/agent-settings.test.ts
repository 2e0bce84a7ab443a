import { expect, test } from "vitest";

import type { Agent, Config } from "@/lib/types";

import { agentsOf, changedSettings, draftOf } from "./agent-settings";

const agent = (id: string): Agent => ({ id, name: id, system_prompt: "Be fair.", model: "small", temperature: 0.7 });
const config = {
  synthesizers: [agent("numbers"), agent("news")],
  inferences: [agent("f1"), agent("f2")],
  analysts: [{ ...agent("analyst_1"), moves: [] }],
  critic: agent("critic"),
  decision_makers: [agent("D1")],
} as unknown as Config;

test("only changed settings are sent", () => {
  const draft = draftOf(config.critic);
  expect(changedSettings(config, draft)).toEqual([]);
  expect(changedSettings(config, { ...draft, persona: "Be mild.", temperature: "0.2" })).toEqual([
    "critic.persona=Be mild.",
    "models.critic.temperature=0.2",
  ]);
  expect(changedSettings(config, { ...draft, model: "  " })).toEqual([]);
});

test("every agent has its path in the configuration", () => {
  expect(agentsOf(config).map((it) => it.path)).toEqual([
    "critic",
    "D1",
    "analyst_1",
    "inferences.F1",
    "inferences.F2",
    "synthesizers.financial",
    "synthesizers.news",
  ]);
});
