// Loads the pinned packages from `GRAPH_CLIENTS_NODE`, because Node.js looks for packages only in directories above the
// importing file.
import { createRequire } from "node:module";
import path from "node:path";
import { test } from "node:test";

/** Loads an installed package. */
export const load = createRequire(path.join(path.resolve(process.env.GRAPH_CLIENTS_NODE), "package.json"));

export const URL = process.env.GRAPH_SERVER_URL.replace(/\/$/, "");

/** Declares a case with a time limit. `fault` says why LangGraph's own server fails the case. */
export function check(name, run, fault) {
  const isExpectedToFail = process.env.GRAPH_SERVER_IS_LANGGRAPH === "1" && fault;
  test(name, { timeout: 600_000, todo: isExpectedToFail || false }, run);
}

/** Returns a client of the server under test. */
export function newClient() {
  const { Client } = load("@langchain/langgraph-sdk");
  return new Client({ apiUrl: URL, apiKey: null });
}

export const TINY_INPUT = { value: "x" };
export const TINY_RESULT = { value: "xab", log: ["a", "b"], count: 2 };

/** Returns the input of the graph `chat` for one message of the user. */
export const user = (text) => ({ messages: [{ type: "human", content: text }] });

/** Creates a thread, runs a graph on it and returns the thread's id. */
export async function finishedThread(client, graph = "tiny", parameters = { input: TINY_INPUT }) {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, graph, parameters);
  return thread_id;
}

/** Reads a stream to its end. */
export async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** Returns the data of all events of one name. */
export const dataOf = (parts, event) => parts.filter((it) => it.event === event).map((it) => it.data);

/** Calls `probe` until it returns a truthy value, and returns this value. */
export async function until(probe, seconds = 240) {
  const deadline = Date.now() + 1000 * seconds;
  for (;;) {
    const result = await probe();
    if (result) return result;
    if (Date.now() > deadline) throw new Error(`the condition did not become true within ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
