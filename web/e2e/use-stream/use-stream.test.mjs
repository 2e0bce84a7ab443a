/** Both generations of LangGraph's React hook `useStream`, in Chromium. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { eventually, launchBrowser, openPage } from "../browser.mjs";
import { startExample } from "../example.mjs";
import { servePage } from "./page-server.mjs";

const HOOKS = {
  "@langchain/langgraph-sdk": { hook: "sdk" },
  "@langchain/react over HTTP": { hook: "react", transport: "sse" },
  "@langchain/react over a WebSocket": { hook: "react", transport: "websocket" },
};

let pages, reference, studio, browser;
before(async () => {
  // One after the other: if one does not start, `after` can still stop the others.
  pages = await servePage();
  reference = await startExample(process.env.REFERENCE_BIN ?? "reference");
  studio = await startExample(process.env.STUDIO_BIN ?? "studio");
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await Promise.all([pages, reference, studio].map((it) => it?.stop()));
});

/** Declares a test for each hook. The test opens the page with a graph of a server, and closes the page at the end. */
function check(name, { run, graph, serverOf, expected, hooks = HOOKS }) {
  for (const [hook, query] of Object.entries(hooks)) {
    test(`${hook}: ${name}`, { timeout: 1_800_000 }, async () => {
      const server = serverOf();
      const { page, close } = await openPage(browser, pages, { expected, origins: [pages.url, server.url] });
      await page.goto(`${pages.url}/?${new URLSearchParams({ ...query, api: server.url, graph })}`);
      await run(new Chat(page), server);
      await close();
    });
  }
}

const ask = (text) => ({ messages: [{ type: "human", content: text }] });

class Chat {
  constructor(page) {
    this.page = page;
  }

  /** Presses a button, after entering its argument. */
  async press(button, argument) {
    if (argument !== undefined) await this.page.getByLabel("JSON").fill(JSON.stringify(argument));
    await this.page.getByRole("button", { name: button }).click();
  }

  async read(label) {
    return JSON.parse(await this.page.getByLabel(label, { exact: true }).textContent());
  }

  async until(status) {
    await this.page.getByLabel("Status").getByText(status).waitFor();
  }

  /** Waits until a part of the page has this value. */
  async shows(label, value) {
    await eventually(async () => assert.deepEqual(await this.read(label), value));
  }

  /** Returns the text of the last message. */
  async answer() {
    return (await this.read("Messages")).at(-1)?.at(-1) ?? "";
  }

  /** Waits until the answer, which repeats `word`, is ten words longer than `length` characters. Returns its length. */
  async grows(word, length) {
    return eventually(async () => {
      const answer = await this.answer();
      assert.ok(answer.startsWith(`You wrote: **${word} ${word}`), answer.slice(0, 40));
      assert.ok(answer.length > length + 10 * word.length, `${answer.length} characters`);
      return answer.length;
    });
  }
}

check("an answer is added to the conversation", {
  graph: "chat",
  serverOf: () => reference,
  async run(chat) {
    const conversation = [
      ["human", "hello you"],
      ["ai", "you said hello you"],
    ];
    await chat.press("Submit", ask("hello you"));
    await chat.shows("Messages", conversation);
    await chat.until("idle");
    await chat.press("Submit", ask("again"));
    conversation.push(["human", "again"], ["ai", "you said again"]);
    await chat.shows("Messages", conversation);
    await chat.until("idle");
    await chat.page.reload();
    await chat.shows("Messages", conversation);
  },
});

check("an answer is shown although the run ends between two subscriptions", {
  hooks: { "@langchain/react over a WebSocket": { hook: "react", transport: "websocket", late: true } },
  graph: "chat",
  serverOf: () => reference,
  async run(chat) {
    await chat.press("Submit", ask("hello"));
    await chat.shows("Messages", [
      ["human", "hello"],
      ["ai", "you said hello"],
    ]);
    await chat.until("idle");
  },
});

check("an interrupt is shown, survives a reload and is answered", {
  graph: "approval",
  serverOf: () => reference,
  async run(chat) {
    const question = { question: "approve?", draft: "draft about cats" };
    await chat.press("Submit", { topic: "cats" });
    await chat.shows("Interrupt", question);
    await chat.until("idle");
    await chat.page.reload();
    await chat.shows("Interrupt", question);
    await chat.press("Resume", "yes");
    await eventually(async () => {
      const { decision, log } = await chat.read("Values");
      assert.deepEqual([decision, log], ["yes", ["draft", "review", "publish"]]);
    });
    await chat.until("idle");
    await chat.page.getByLabel("Interrupt").waitFor({ state: "detached" });
  },
});

check("an error of a run is shown", {
  graph: "fail",
  serverOf: () => reference,
  // One of the hooks also writes the error to the console.
  expected: [/^ValueError: boom/],
  async run(chat) {
    await chat.press("Submit", { log: [] });
    await chat.page.getByRole("alert").getByText("boom").waitFor();
    await chat.until("idle");
  },
});

check("tool calls are shown with their results, and are approved", {
  graph: "assistant",
  serverOf: () => studio,
  async run(chat) {
    await chat.press("Submit", ask("How is the weather?"));
    const weather = ["weather", { city: "Rome" }, "it rains in Rome."];
    await chat.shows("Tool calls", [weather]);
    await eventually(async () => assert.equal(await chat.answer(), "The tool says: it rains in Rome."));
    await chat.until("idle");
    await chat.press("Submit", ask("Send a mail."));
    await eventually(async () => {
      const [{ name, args }] = (await chat.read("Interrupt")).action_requests;
      assert.deepEqual([name, args], ["send_mail", { to: "ann@example.org" }]);
    });
    await chat.until("idle");
    await chat.press("Resume", { decisions: [{ type: "approve" }] });
    await chat.shows("Tool calls", [weather, ["send_mail", { to: "ann@example.org" }, "the mail was sent."]]);
    await eventually(async () => assert.equal(await chat.answer(), "The tool says: the mail was sent."));
    await chat.until("idle");
  },
});

/** Returns a question to which the model writes an answer for ten minutes. */
const long = (word) => ask(`${word} `.repeat(15_000));

check("an answer grows while the model writes, also after a lost connection, until it is stopped", {
  graph: "assistant",
  serverOf: () => studio,
  expected: [/Failed to load resource/, /WebSocket connection to/],
  async run(chat, server) {
    await chat.press("Submit", long("first"));
    const length = await chat.grows("first", 0);
    await chat.until("running");
    server.disconnect();
    server.reconnect();
    await chat.grows("first", length);
    await chat.until("running");
    await chat.press("Stop");
    await chat.until("idle");
    const thread = new URL(chat.page.url()).searchParams.get("thread");
    await eventually(async () => {
      const { status } = await (await fetch(`${server.url}/threads/${thread}`)).json();
      assert.notEqual(status, "busy", "the run is cancelled");
    });
    await chat.press("Submit", long("second"));
    await chat.grows("second", 0);
  },
});

check("an answer continues to grow after a reload", {
  graph: "assistant",
  serverOf: () => studio,
  async run(chat) {
    await chat.press("Submit", long("word"));
    const length = await chat.grows("word", 0);
    await chat.page.reload();
    await chat.until("running");
    await chat.grows("word", length);
  },
});
