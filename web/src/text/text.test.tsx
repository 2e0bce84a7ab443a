import type { ReactElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";

import { Document } from "./document";
import { readFindings } from "./findings";
import { blocks, spans, unescapeMarkup } from "./markdown";
import { ModelText } from "./model-text";
import { tokens } from "./tokens";

const html = (element: ReactElement): string => renderToStaticMarkup(element);

const ATTACKS = [
  "<script>alert(1)</script>",
  '<img src=x onerror="alert(1)">',
  "[click](javascript:alert(1))",
  "![pixel](https://example.org/pixel.png)",
  "<https://example.org>",
  "**<b onclick=alert(1)>bold</b>**",
  "`<iframe src=//example.org>`",
  "| <svg onload=alert(1)> | b |\n| --- | --- |\n| <a href=//example.org>x</a> | y |",
  "> <style>*{display:none}</style>",
  "# <meta http-equiv=refresh content=0>",
  "- <link rel=stylesheet href=//example.org>",
  "```html\n<script>alert(1)</script>\n```",
];

describe("text from a model", () => {
  it.each(ATTACKS)("is never interpreted as markup: %s", (attack) => {
    for (const element of [
      <Document key="d" text={attack} />,
      <ModelText key="s" text={attack} doubts={["alert"]} />,
    ]) {
      const page = html(element);
      expect(page).not.toMatch(/<(script|img|a|b|iframe|svg|style|meta|link)[\s>]/i);
      expect(page).not.toMatch(/<[^>]*\s(href|src|on\w+|srcset)=/i);
      const shown = page.replace(/<[^>]*>/g, "");
      expect(shown).toContain(attack.includes("<") ? "&lt;" : "](");
    }
  });

  it("has its citations highlighted", () => {
    expect(tokens("as [F1-07] and [F2-10] say [F3] not")).toEqual([
      { kind: "text", text: "as " },
      { kind: "citation", id: "F1-07" },
      { kind: "text", text: " and " },
      { kind: "citation", id: "F2-10" },
      { kind: "text", text: " say [F3] not" },
    ]);
    expect(html(<ModelText text="so [F1-07]." />)).toMatch(
      /so <button[^>]*aria-label="Finding F1-07"[^>]*>F1-07<\/button>\./,
    );
  });

  it("has every occurrence of a doubtful number underlined", () => {
    const page = html(<ModelText text="from $5m to $5m" doubts={["$5m"]} />);
    expect(page.match(/<span[^>]*>\$5m<\/span>/g)).toHaveLength(2);
  });
});

describe("the markdown of documents", () => {
  it("has code in fences, also if the last fence is still missing", () => {
    const code = { kind: "code", text: "let a;\n\n# not a heading" };
    expect(blocks("Look:\n```rust\nlet a;\n\n# not a heading\n```\ndone")).toEqual([
      { kind: "paragraph", text: "Look:" },
      code,
      { kind: "paragraph", text: "done" },
    ]);
    expect(blocks("```\nlet a;\n\n# not a heading")).toEqual([code]);
  });

  it("is parsed into blocks", () => {
    const text =
      "# One\n\ntwo\nlines\n\n- a\n- b\n\n1. c\n2. d\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n> said\n> so\n\n---\nend";
    expect(blocks(text)).toEqual([
      { kind: "heading", level: 1, text: "One" },
      { kind: "paragraph", text: "two lines" },
      { kind: "list", ordered: false, items: ["a", "b"] },
      { kind: "list", ordered: true, items: ["c", "d"] },
      { kind: "table", head: ["x", "y"], rows: [["1", "2"]] },
      { kind: "quote", text: "said so" },
      { kind: "rule" },
      { kind: "paragraph", text: "end" },
    ]);
  });

  it("is shown without the escapes of the server, and still not interpreted", () => {
    const text = '# &lt;b>Sell it\n\n\\# Approved\n\\> "so" [read]&#40;javascript:alert(2))\n\n[a]&#58; //example.org';
    expect(blocks(unescapeMarkup(text))).toEqual([
      { kind: "heading", level: 1, text: "<b>Sell it" },
      { kind: "paragraph", text: '# Approved > "so" [read](javascript:alert(2))' },
      { kind: "paragraph", text: "[a]: //example.org" },
    ]);
    const page = html(<Document text={text} />);
    expect(page).toContain("&lt;b&gt;Sell it");
    expect(page).not.toMatch(/<(b|a)[\s>]|&amp;/);
  });

  it("terminates for malformed input", () => {
    for (const odd of ["|", "| a", ">", "#", "-", "1.", "***", "```\ncode", "|a|\n|", "- \n-", "\r\n\r\n"]) {
      expect(blocks(odd).length).toBeLessThanOrEqual(3);
    }
  });

  it("supports bold and code, and keeps unclosed marks as text", () => {
    expect(spans("a **b** `c` **d")).toEqual([
      { kind: "plain", text: "a " },
      { kind: "bold", text: "b" },
      { kind: "plain", text: " " },
      { kind: "code", text: "c" },
      { kind: "plain", text: " **d" },
    ]);
    expect(spans("**** ``")).toEqual([{ kind: "plain", text: "**** ``" }]);
    expect(spans("****")).toEqual([{ kind: "plain", text: "****" }]);
  });
});

describe("a findings document", () => {
  it("is parsed into findings", () => {
    const text = [
      "# F1 — Financial inference: NVDA",
      "",
      "## F1-01 (growth, positive, strength 3)",
      "",
      "Revenue grew by 9.2%.",
      "",
      '- Evidence, Key Ratios: "Revenue growth | 9.2%"',
      "",
      "## Tensions",
      "",
      "- F1-01 and F1-02: both",
    ].join("\n");
    expect(readFindings(text)).toEqual([
      {
        id: "F1-01",
        claim: "Revenue grew by 9.2%.",
        evidence: [{ section: "Key Ratios", quote: "Revenue growth | 9.2%" }],
        kind: "growth",
        direction: "positive",
        strength: 3,
      },
    ]);
  });
});
