/** Messages of models and people. Everything in them is untrusted text. */

import { isObject } from "@studio/api/json";
import type { Json, JsonObject } from "@studio/api/types";

export interface ToolCall {
  id: string | null;
  name: string;
  args: Json;
}

export interface Message extends JsonObject {
  type: string;
  content: Json;
}

const TYPES = new Set(["human", "ai", "system", "tool", "function", "developer"]);

export function isMessage(value: Json | undefined): value is Message {
  return (
    isObject(value) &&
    "content" in value &&
    typeof value["type"] === "string" &&
    TYPES.has(roleOf({ type: value["type"] }))
  );
}

/** Returns the role without the suffix of streamed pieces: `AIMessageChunk` becomes `ai`. */
export function roleOf({ type }: { type: string }): string {
  return type.replace(/MessageChunk$/, "").toLowerCase();
}

/** Returns the text of a message; content in blocks is joined. */
export function textOf(message: Pick<Message, "content">): string {
  const { content } = message;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((it) => (typeof it === "string" ? it : isObject(it) && typeof it["text"] === "string" ? it["text"] : ""))
    .join("");
}

export function toolCallsOf(message: Message): ToolCall[] {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return [];
  return calls.filter(isObject).map((it) => ({
    id: typeof it["id"] === "string" ? it["id"] : null,
    name: typeof it["name"] === "string" ? it["name"] : "unnamed tool",
    args: it["args"] ?? {},
  }));
}

/** Appends a streamed piece to the message so far. */
export function appendChunk(soFar: Message | null, chunk: Message): Message {
  if (soFar === null) return { ...chunk, type: roleOf(chunk) };
  const calls = [soFar["tool_calls"], chunk["tool_calls"]].flatMap((it) => (Array.isArray(it) ? it : []));
  return { ...soFar, content: appendContent(soFar.content, chunk.content), tool_calls: calls };
}

function appendContent(soFar: Json, more: Json): Json {
  if (typeof soFar === "string" && typeof more === "string") return soFar + more;
  const blocks = (it: Json): Json[] =>
    Array.isArray(it) ? it : typeof it === "string" && it !== "" ? [{ type: "text", text: it }] : [];
  return [...blocks(soFar), ...blocks(more)];
}

/** Returns the messages of a state: its field `messages`. */
export function messagesIn(values: JsonObject): Message[] {
  const messages = values["messages"];
  return Array.isArray(messages) ? messages.filter(isMessage) : [];
}

/**
 * Returns the conversation: the messages of the state, followed by those that are still being streamed. A streamed
 * message is dropped once the state contains a message with its id.
 */
export function conversation(stored: readonly Message[], streamed: readonly Message[]): Message[] {
  const known = new Set(stored.map((it) => it["id"]));
  return [...stored, ...streamed.filter((it) => !known.has(it["id"] ?? null))];
}
