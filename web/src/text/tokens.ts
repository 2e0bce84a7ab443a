/** Splits a text into plain text and citations such as `[F1-07]`. */

type Token = { kind: "text"; text: string } | { kind: "citation"; id: string };

const CITATION = /\[(F\d+-\d+)\]/g;

export function tokens(text: string): Token[] {
  const found: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(CITATION)) {
    if (match.index > end) found.push({ kind: "text", text: text.slice(end, match.index) });
    found.push({ kind: "citation", id: match[1]! });
    end = match.index + match[0].length;
  }
  if (end < text.length) found.push({ kind: "text", text: text.slice(end) });
  return found;
}
