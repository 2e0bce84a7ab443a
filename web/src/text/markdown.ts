/**
 * Parses the subset of Markdown used in documents: headings, lists, tables, quotes, bold and code. Links, images and
 * HTML are not supported and remain plain text, because models write most documents.
 */

export type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "list"; ordered: boolean; items: string[] }
  | { kind: "table"; head: string[]; rows: string[][] }
  | { kind: "quote"; text: string }
  | { kind: "code"; text: string }
  | { kind: "rule" }
  | { kind: "paragraph"; text: string };

type Span = { kind: "plain" | "bold" | "code"; text: string };

const HEADING = /^(#{1,6}) (.*)$/;
const BULLET = /^\s*[-*] (.*)$/;
const NUMBER = /^\s*\d+[.)] (.*)$/;
const RULE = /^-{3,}$/;
const FENCE = /^\s*```/;
/** A backslash before a sign that would otherwise start a heading, a quote, a rule, a table or code. */
const ESCAPED_START = /^(\s*)\\(?=[#>|*_=`~-])/;
const TABLE_RULE = /^\|?[\s:|-]+\|[\s:|-]*$/;

/** Characters that the server escapes in documents, so that other viewers show no links, images and HTML. */
const ESCAPED = { "&lt;": "<", "&#40;": "(", "&#58;": ":" };

/** Returns a document of the server without these escapes. This page never interprets the characters as markup. */
export function unescapeMarkup(document: string): string {
  return document.replace(/&lt;|&#40;|&#58;/g, (it) => ESCAPED[it as keyof typeof ESCAPED]);
}

export function blocks(document: string): Block[] {
  const found: Block[] = [];
  const lines = document.split(/\r?\n/);
  let at = 0;
  const gather = (pattern: RegExp): string[] => {
    const items: string[] = [];
    for (let match; (match = pattern.exec(lines[at] ?? "")); at += 1) items.push(match[1]!);
    return items;
  };
  while (at < lines.length) {
    const line = lines[at]!;
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      at += 1;
    } else if (heading) {
      found.push({ kind: "heading", level: heading[1]!.length, text: heading[2]! });
      at += 1;
    } else if (FENCE.test(line)) {
      // A fence without an end extends to the end of the text. This happens while the text is still being streamed.
      const rest = lines.slice(at + 1);
      const end = rest.findIndex((it) => FENCE.test(it));
      const code = end < 0 ? rest : rest.slice(0, end);
      found.push({ kind: "code", text: code.join("\n") });
      at += code.length + 2;
    } else if (RULE.test(line)) {
      found.push({ kind: "rule" });
      at += 1;
    } else if (line.startsWith("|") && TABLE_RULE.test(lines[at + 1] ?? "")) {
      const rows = gather(/^(\|.*)$/).map(cells);
      found.push({ kind: "table", head: rows[0]!, rows: rows.slice(2) });
    } else if (line.startsWith(">")) {
      found.push({ kind: "quote", text: gather(/^> ?(.*)$/).join(" ") });
    } else if (BULLET.test(line)) {
      found.push({ kind: "list", ordered: false, items: gather(BULLET) });
    } else if (NUMBER.test(line)) {
      found.push({ kind: "list", ordered: true, items: gather(NUMBER) });
    } else {
      const length = paragraphLength(lines, at);
      const text = lines.slice(at, at + length).map((it) => it.replace(ESCAPED_START, "$1"));
      found.push({ kind: "paragraph", text: text.join(" ") });
      at += length;
    }
  }
  return found;
}

function paragraphLength(lines: string[], at: number): number {
  let length = 1;
  while (isProse(lines[at + length])) length += 1;
  return length;
}

function isProse(line: string | undefined): boolean {
  if (line === undefined || line.trim() === "") return false;
  return ![HEADING, BULLET, NUMBER, RULE, FENCE].some((it) => it.test(line)) && !/^[|>]/.test(line);
}

function cells(row: string): string[] {
  return row
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((it) => it.trim());
}

/** Splits a line into plain, bold and code spans. Unclosed marks are plain text. */
export function spans(text: string): Span[] {
  return text
    .split(/(\*\*[^*]+\*\*|`[^`]+`)/)
    .filter((it) => it !== "")
    .map((it) => {
      if (it.length > 4 && it.startsWith("**") && it.endsWith("**")) return { kind: "bold", text: it.slice(2, -2) };
      if (it.length > 2 && it.startsWith("`") && it.endsWith("`")) return { kind: "code", text: it.slice(1, -1) };
      return { kind: "plain", text: it };
    });
}
