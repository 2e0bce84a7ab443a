// The workloads of ../../src/compare/workloads.rs in LangGraph.js. ../../src/protocol.rs describes the requests and answers,
// ../../src/data.rs the data.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Annotation, END, MemorySaver, START, Send, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { z } from "zod";

const THREADS = 16;
let names = 0;

/** Thrown for a workload that this program does not implement, with the reason. */
class Cannot extends Error {}

const config = () => ({
  recursionLimit: 1_000_000_000,
  configurable: { thread_id: `thread-${names++}` },
});

const add = (left, right) => left + right;
const append = (left, right) => left.concat(right);
const sum = Annotation({ reducer: add, default: () => 0 });
const list = Annotation({ reducer: append, default: () => [] });
const newOrOld = Annotation({ reducer: (old, value) => value ?? old, default: () => null });
const merged = Annotation({ reducer: (old, value) => ({ ...old, ...value }), default: () => ({}) });

/** Returns a function that runs the graph once, with a fresh input. */
function runner(graph, input, answer, durability) {
  const options = durability ? { durability } : {};
  return async () => answer(await graph.invoke(input(), { ...config(), ...options }));
}

const Counter = Annotation.Root({ count: Annotation(), until: Annotation() });
const tick = (state) => ({ count: state.count + 1 });
const turn = (node) => (state) => (state.count < state.until ? node : END);
const counted = (state) => String(state.count);

const loopGraph = (saver) =>
  new StateGraph(Counter)
    .addNode("tick", tick)
    .addEdge(START, "tick")
    .addConditionalEdges("tick", turn("tick"), ["tick", END])
    .compile({ checkpointer: saver });

const loop = (size) => runner(loopGraph(), () => ({ count: 0, until: size }), counted);

function fanOut(size) {
  const graph = new StateGraph(Annotation.Root({ parts: Annotation(), sum }))
    .addNode("add", (part) => ({ sum: part.part }))
    .addConditionalEdges(
      START,
      (state) => Array.from({ length: state.parts }, (_, part) => new Send("add", { part })),
      ["add"],
    )
    .compile();
  return runner(graph, () => ({ parts: size }), (it) => String(it.sum));
}

function growingList(size) {
  const graph = new StateGraph(Annotation.Root({ until: Annotation(), lines: list }))
    .addNode("write", (state) => ({ lines: [state.lines.length] }))
    .addEdge(START, "write")
    .addConditionalEdges("write", (state) => (state.lines.length < state.until ? "write" : END), ["write", END])
    .compile();
  return runner(graph, () => ({ until: size }), (it) => String(it.lines.length));
}

function sequential(size, saver) {
  const name = (index) => `node${String(index).padStart(6, "0")}`;
  const graph = new StateGraph(Counter);
  for (let index = 0; index < size; index++) {
    graph.addNode(name(index), tick);
    graph.addEdge(index ? name(index - 1) : START, name(index));
  }
  return runner(graph.compile({ checkpointer: saver }), () => ({ count: 0 }), counted, saver && "exit");
}

function describe(texts) {
  const length = texts.reduce((total, text) => total + text.length, 0);
  return `${texts.length} texts of ${length} characters`;
}

function fanoutToSubgraph(size, saver) {
  const One = Annotation.Root({ subject: Annotation(), joke: Annotation() });
  // The text of a list as Python writes it.
  const edit = (letters) => `['${letters.join("', '")}'] - hohoho`;
  const inner = new StateGraph(One)
    .addNode("edit", (it) => ({ subject: edit(it.subject) }))
    .addNode("generate", (it) => ({ joke: `Joke about ${it.subject}` }))
    .addNode("bump", (it) => ({ joke: `${it.joke} a` }))
    .addEdge(START, "edit")
    .addEdge("edit", "generate")
    .addEdge("generate", "bump")
    .addConditionalEdges("bump", (it) => (it.joke.endsWith(" a".repeat(10)) ? END : "bump"), ["bump", END])
    .compile();
  const graph = new StateGraph(Annotation.Root({ subjects: Annotation(), jokes: list }))
    .addNode("generate_joke", async (it) => ({ jokes: [(await inner.invoke(it)).joke] }))
    .addConditionalEdges(
      START,
      (it) => it.subjects.map((subject) => new Send("generate_joke", { subject })),
      ["generate_joke"],
    )
    .compile({ checkpointer: saver });
  const letter = (index) => String.fromCharCode(97 + (index % 26));
  const subjects = Array.from({ length: size }, (_, index) => Array(1000).fill(letter(index)));
  return runner(graph, () => ({ subjects }), (it) => describe(it.jokes), saver && "exit");
}

const WIDE_DOCUMENT = { 300: [5, 5], 600: [3, 5] };

function wideState(size, saver) {
  const Wide = Annotation.Root({
    size: Annotation(),
    messages: list,
    trigger_events: list,
    categorizations: list,
    responses: list,
    primary_issue_medium: newOrOld,
    autoresponse: Annotation(),
    issue: newOrOld,
    relevant_rules: Annotation(),
    memory_docs: Annotation(),
    user_info: newOrOld,
    crm_info: newOrOld,
    email_thread_id: newOrOld,
    slack_participants: merged,
    bot_id: Annotation(),
    notified_assignees: merged,
  });
  const last = (items) => items[items.length - 1];
  const five = (it) => {
    const [document, text] = [last(it.categorizations), "x".repeat(it.size)];
    const people = { slack_participants: document, notified_assignees: document };
    return { user_info: document, crm_info: document, email_thread_id: text, bot_id: text, ...people };
  };
  const events = (it) => it.trigger_events;
  const graph = new StateGraph(Wide)
    .addNode("one", (it) => ({ trigger_events: it.messages, primary_issue_medium: "x".repeat(it.size) }))
    .addNode("two", (it) => ({ autoresponse: last(events(it)), issue: last(events(it)) }))
    .addNode("three", (it) => ({ relevant_rules: [it.autoresponse] }))
    .addNode("four", (it) => ({ categorizations: events(it), responses: events(it), memory_docs: events(it) }))
    .addNode("five", five)
    .addNode("six", (it) => ({ messages: it.responses }))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", "three")
    .addEdge("two", "four")
    .addEdge(["three", "four"], "five")
    .addEdge("five", "six")
    .addConditionalEdges("six", (it) => (it.messages.length > it.size ? END : "one"), ["one", END])
    .compile({ checkpointer: saver });
  const [width, depth] = WIDE_DOCUMENT[size] ?? [3, 3];
  const values = Array(5).fill(["hi?".repeat(10), true, 1, 6327816386138, null]).flat();
  const object = (count, value) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [String(index).repeat(10), value]));
  const document = object(width, object(depth, values));
  const answer = (it) =>
    `${it.messages.length} messages, ${events(it).length} events, ` +
    `${it.categorizations.length} categorizations, ${it.responses.length} responses`;
  return runner(graph, () => ({ size, messages: [document] }), answer, saver && "exit");
}

/** Calls the tool once per turn until it has called it often enough. */
class FakeModel extends BaseChatModel {
  constructor(calls, long) {
    super({});
    this.calls = calls;
    this.times = long ? 100 : 1;
  }

  _llmType() {
    return "fake";
  }

  bindTools() {
    return this;
  }

  async _generate(messages) {
    const turn = Math.floor(messages.length / 2);
    let message = new AIMessage("answer".repeat(this.times));
    if (turn < this.calls) {
      const query = String(turn).padStart(36, "0").repeat(this.times);
      message = new AIMessage({ content: "", tool_calls: [{ name: "search", args: { query }, id: String(turn) }] });
    }
    return { generations: [{ message, text: message.content }] };
  }
}

function agent(size, long, saver) {
  const search = tool(({ query }) => `result for query: ${query}`.repeat(long ? 10 : 1), {
    name: "search",
    description: "Searches.",
    schema: z.object({ query: z.string() }),
  });
  const agent = createReactAgent({ llm: new FakeModel(size, long), tools: [search], checkpointer: saver });
  const answer = (it) => describe(it.messages.map((message) => message.content));
  return runner(agent, () => ({ messages: [new HumanMessage("hi?")] }), answer, saver && "exit");
}

const reactAgent = (size, saver) => agent(size, true, saver);
const agentLoop = (size) => agent(size, false);

function nested(size) {
  const inner = new StateGraph(Annotation.Root({ count: Annotation() }))
    .addNode("increment", tick)
    .addEdge(START, "increment")
    .compile();
  const graph = new StateGraph(Counter)
    .addNode("call", inner)
    .addEdge(START, "call")
    .addConditionalEdges("call", turn("call"), ["call", END])
    .compile();
  return runner(graph, () => ({ count: 0, until: size }), counted);
}

/** Returns a function that runs many threads at once. */
function batch(graph, count, input, length) {
  return async () => {
    const run = () => graph.invoke(input(), { ...config(), durability: "sync" });
    const states = await Promise.all(Array.from({ length: count }, run));
    return String(states.map(length).reduce(add, 0));
  };
}

const threads = (size) =>
  batch(loopGraph(new MemorySaver()), size, () => ({ count: 0, until: 10 }), (it) => it.count);

/** Computes with two 32-bit halves, because BigInt would be ten times slower. */
function spin(seed) {
  let [high, low] = [0, seed + 1];
  for (let round = 0; round < 1_000_000; round++) {
    high ^= (high << 13) | (low >>> 19);
    low ^= low << 13;
    low ^= (low >>> 7) | (high << 25);
    high ^= high >>> 7;
    high ^= (high << 17) | (low >>> 15);
    low ^= low << 17;
  }
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}

function cpuBranches(size) {
  const graph = new StateGraph(Annotation.Root({ branches: Annotation(), results: list }))
    .addNode("spin", (it) => ({ results: [spin(it.seed)] }))
    .addConditionalEdges(
      START,
      (state) => Array.from({ length: state.branches }, (_, seed) => new Send("spin", { seed })),
      ["spin"],
    )
    .compile();
  const answer = (it) => String(BigInt.asUintN(64, it.results.reduce(add, 0n)));
  return runner(graph, () => ({ branches: size }), answer);
}

const Chat = Annotation.Root({ until: Annotation(), count: Annotation(), messages: list });

function say(chat) {
  const count = chat.count + 1;
  return { count, messages: [String(count).padEnd(100)] };
}

const chatGraph = (saver) =>
  new StateGraph(Chat)
    .addNode("say", say)
    .addEdge(START, "say")
    .addConditionalEdges("say", turn("say"), ["say", END])
    .compile({ checkpointer: saver });

const databasePath = () => join(process.env.GRAPH_BENCH_DIR, `${process.pid}-${names++}.db`);

function openSaver(path, synchronous = "FULL") {
  const saver = SqliteSaver.fromConnString(path);
  saver.db.pragma("journal_mode=WAL");
  saver.db.pragma(`synchronous=${synchronous}`);
  return saver;
}

const newChat = (until) => () => ({ until, count: 0, messages: [] });
const length = (chat) => chat.messages.length;

const sqliteLoop = (size) =>
  runner(chatGraph(openSaver(databasePath())), newChat(size), (it) => String(length(it)), "sync");

const sqliteLoop16 = (size) => batch(chatGraph(openSaver(databasePath())), THREADS, newChat(size), length);

async function resume(size) {
  if (size > 2_000) {
    throw new Cannot("not run: the file would have more than a gigabyte, because every step stores the whole list");
  }
  const [path, thread] = [databasePath(), { ...config(), durability: "sync" }];
  await chatGraph(openSaver(path, "OFF")).invoke(newChat(size)(), thread);
  return async () => {
    const state = await chatGraph(openSaver(path)).invoke({ until: size }, thread);
    return length(state) > size ? "resumed" : `${length(state)} messages`;
  };
}

const WORKLOADS = {
  loop,
  "fan-out": fanOut,
  "growing-list": growingList,
  sequential,
  "fanout-to-subgraph": fanoutToSubgraph,
  "wide-state": wideState,
  "react-agent": reactAgent,
  "agent-loop": agentLoop,
  nested,
  threads,
  "cpu-branches": cpuBranches,
  "sqlite-loop": sqliteLoop,
  "sqlite-loop-16": sqliteLoop16,
  resume,
};

function prepare(workload, size) {
  if (workload.startsWith("server")) {
    throw new Cannot("not measured: its server is another package");
  }
  const name = workload.replace(/-checkpoint$/, "");
  if (!(name in WORKLOADS)) {
    throw new Cannot(`no program for \`${workload}\``);
  }
  return name === workload ? WORKLOADS[name](size) : WORKLOADS[name](size, new MemorySaver());
}

function statusBytes(key) {
  const line = readFileSync("/proc/self/status", "utf8").split("\n").find((it) => it.startsWith(key));
  return line ? Number(line.split(/\s+/)[1]) * 1024 : 0;
}

async function measure(run, runs) {
  globalThis.gc?.();
  try {
    writeFileSync("/proc/self/clear_refs", "5");
  } catch {
    // Without permission, the growth since the start of the process counts.
  }
  const [before, cpu, start] = [statusBytes("VmRSS:"), process.cpuUsage(), performance.now()];
  let answer;
  for (let index = 0; index < runs; index++) {
    answer = await run();
  }
  const seconds = (performance.now() - start) / 1e3;
  const used = process.cpuUsage(cpu);
  const memory = Math.max(0, statusBytes("VmHWM:") - before);
  return { answer, seconds, cpu: (used.user + used.system) / 1e6, memory };
}

let prepared = {};

async function serve(line) {
  const [workload, size, runs] = line.split(" ");
  try {
    if (prepared.workload !== workload || prepared.size !== size) {
      prepared = { workload, size, run: await prepare(workload, Number(size)) };
    }
    return await measure(prepared.run, Number(runs));
  } catch (error) {
    return { cannot: error instanceof Cannot ? error.message : `failed: ${error}` };
  }
}

const answer = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const manifest = createRequire(import.meta.url)("./package.json");
answer({ version: `${manifest.dependencies["@langchain/langgraph"]}, Node ${process.versions.node}` });
for await (const line of createInterface({ input: process.stdin })) {
  answer(await serve(line));
}
