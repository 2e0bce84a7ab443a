import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { JsonView } from "@studio/ui/json-view";

import { MessageView } from "./message-view";

const ATTACK = '<img src=x onerror="alert(1)"> [F1-07] [x](javascript:alert(2))';

it("shows everything in a message as text", () => {
  const call = { id: ATTACK, name: ATTACK, args: { [ATTACK]: ATTACK } };
  for (const type of ["human", "ai", "tool"]) {
    const message = { type, name: ATTACK, content: ATTACK, tool_calls: [call] };
    const page = renderToStaticMarkup(<MessageView message={message} />);
    expect(page).not.toMatch(/<(script|img|a|button|iframe)[\s>]/i);
    expect(page.replace(/<[^>]*>/g, "")).toContain("&lt;img src=x");
  }
});

it("shows values as text", () => {
  const page = renderToStaticMarkup(<JsonView value={{ [ATTACK]: [ATTACK, { deep: { deeper: ATTACK } }] }} />);
  expect(page).not.toMatch(/<(img|a)[\s>]/i);
  expect(page.match(/&lt;img/g)).toHaveLength(3);
});
