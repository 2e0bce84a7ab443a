/** The studio: draw, run, interrupt, edit, fork, compare, chat, reload and reconnect. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { PHONE, checkBoth, checkPage, eventually, launchBrowser, openPage, shoot } from "../browser.mjs";
import { continueRun, finishedRun, newThread, startStudio } from "./server.mjs";

let server, browser;
before(async () => {
  server = await startStudio();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const node = (page, id, status) => page.locator(`[data-node="${id}"][data-status="${status}"]`);
const timeline = (page) => page.getByRole("list", { name: "Checkpoints, oldest first" });
const step = (page, text) => timeline(page).getByRole("button", { name: text });

test("a graph is drawn, runs, asks a question and resumes", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/`);
  await page.getByRole("combobox", { name: "Graph" }).selectOption("review");
  for (const id of ["write", "review", "publish"]) await node(page, id, "idle").waitFor();
  await page.locator(".react-flow__edge").nth(3).waitFor({ state: "attached" });
  await checkPage(page, "a new thread");

  await page.getByRole("button", { name: "Run on a new thread" }).click();
  await page.getByRole("alert").getByText("Enter Topic.").waitFor();
  await page.getByLabel("Topic").fill("glass");
  await page.getByLabel("Style").selectOption("funny");
  await page.getByLabel("Topic").press("Control+Enter");
  await node(page, "review", "waiting").waitFor();
  await node(page, "write", "done").waitFor();
  await step(page, /write.*waiting/).waitFor();
  await checkBoth(page, "studio-interrupt");

  await page.getByLabel("Answer", { exact: true }).fill("more jokes");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("with this wish: more jokes").first().waitFor();
  await page.getByLabel("Answer", { exact: true }).fill("approve");
  await page.getByRole("button", { name: "Resume" }).click();
  await node(page, "publish", "done").waitFor();
  await page.getByRole("tab", { name: "Runs (3)" }).click();
  await page.getByLabel("Search the runs").fill("jokes");
  const found = page.getByRole("tabpanel", { name: /^Runs/ }).getByRole("listitem");
  await eventually(async () => assert.equal(await found.count(), 1, "one run has this answer"));
  await found.getByText("Answer:").waitFor();
  await page.getByRole("link", { name: /funny text about glass/ }).waitFor();
  await close();
});

test("an answer is kept while another run is active, and can be sent once", { timeout: 1_800_000 }, async () => {
  const thread = await finishedRun(server, "review", { topic: "tea" });
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/studio?graph=review&thread=${thread}`);
  await page.getByLabel("Answer", { exact: true }).fill("approve");
  // The next time that the page loads the runs, the newest one seems to be running.
  const runs = new RegExp(`/threads/${thread}/runs\\?`);
  const asRunning = async (route) => {
    const response = await route.fetch();
    const [newest, ...others] = await response.json();
    await route.fulfill({ response, json: [{ ...newest, status: "running" }, ...others] });
  };
  await page.route(runs, asRunning, { times: 1 });
  await continueRun(server, "review", thread);
  await page.getByRole("tab", { name: "Runs (2)" }).waitFor();
  assert.equal(await page.getByLabel("Answer", { exact: true }).inputValue(), "approve");

  // The answered question disappears even if the page has not loaded the new run yet.
  let load;
  const checked = new Promise((resolve) => (load = resolve));
  await page.route(runs, (route) => checked.then(() => route.continue()), { times: 1 });
  const resume = page.getByRole("button", { name: "Resume" });
  await resume.click();
  await resume.waitFor({ state: "hidden" });
  load();
  await node(page, "publish", "done").waitFor();
  await close();
});

test("a state is edited, a branch is forked, and two branches are compared", { timeout: 1_800_000 }, async () => {
  const thread = await finishedRun(server, "review", { topic: "sand" });
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/studio?graph=review&thread=${thread}`);
  await step(page, "start").click();
  await page.waitForURL(/checkpoint=/);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Edit the state at checkpoint 0" });
  await dialog.getByLabel("Add a field").selectOption("topic");
  await dialog.getByLabel("topic (JSON)").fill("glass");
  await dialog.getByRole("button", { name: "Save as a new checkpoint" }).click();
  await dialog.getByText("this is not valid JSON").waitFor();
  await checkPage(page, "edit");
  await dialog.getByLabel("topic (JSON)").fill('"<b>glass</b>"');
  await dialog.getByRole("button", { name: "Save as a new checkpoint" }).click();
  await step(page, "Edited state").waitFor();
  const changes = page.getByRole("region", { name: "Checkpoint 1" });
  await changes.getByText("<b>glass</b>").waitFor();

  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("A short text about <b>glass</b>.").first().waitFor();
  await node(page, "review", "waiting").waitFor();

  await page.getByLabel("Compare with").selectOption({ index: 1 });
  const compare = page.getByRole("region", { name: "Comparison of two branches" });
  await compare.getByText("Same until step 0").waitFor();
  await compare.getByText("A short text about sand.").waitFor();
  await compare.getByText("A short text about <b>glass</b>.").waitFor();
  await checkBoth(page, "studio-compare");
  await page.reload();
  await compare.getByText("A short text about sand.").waitFor();
  await compare.getByRole("button", { name: "Close the comparison" }).click();

  // The first branch is still there, and an old checkpoint can be executed again.
  await timeline(page).getByRole("button", { name: "2/2 branches. Show the next branch." }).click();
  await page.getByText("A short text about sand.").first().waitFor();
  await step(page, "start").click();
  await page.getByRole("button", { name: "Run from here" }).click();
  await timeline(page).getByRole("button", { name: "3/3 branches. Show the next branch." }).waitFor();
  await close();
});

test("a running run survives a reload and a lost connection", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { expected: [/Failed to load resource/] });
  await page.goto(`${server.url}/studio?graph=research`);
  await page.getByRole("button", { name: "Open subgraphs" }).click();
  await node(page, "search:query", "idle").waitFor();
  await page.getByLabel("Question").fill("rust");
  await page.getByLabel("Seconds").fill("600");
  await page.getByRole("button", { name: "Run on a new thread" }).click();
  await node(page, "search:query", "running").waitFor();
  await checkBoth(page, "studio-running");

  await page.reload();
  await node(page, "search:query", "running").waitFor();
  assert.equal(await page.getByLabel("Seconds").inputValue(), "600", "the input survives a reload");
  server.disconnect();
  await page.getByText("Reconnecting").waitFor();
  server.reconnect();
  await page.getByText("Reconnecting").waitFor({ state: "detached" });
  await node(page, "search:query", "running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Continue" }).waitFor();
  await node(page, "search", "next").waitFor();

  await page.getByRole("button", { name: "New" }).click();
  await page.getByLabel("Seconds").fill("0.3");
  await page.getByRole("button", { name: "Run on a new thread" }).click();
  await page.waitForURL(/thread=/);
  await page.reload();
  await step(page, "summarize").waitFor();
  await node(page, "summarize", "done").waitFor();
  await page.getByRole("tab", { name: "State" }).click();
  await page.getByText("2 notes were taken.", { exact: true }).waitFor();
  await close();
});

test("a sandboxed graph is opened in place and asks a question", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/studio?graph=proposal`);
  await page.getByRole("button", { name: "trial, runs in a sandbox: not run. Open the subgraph." }).click();
  for (const id of ["trial:measure", "trial:decide"]) await node(page, id, "idle").waitFor();
  await page.getByRole("button", { name: /^trial, runs in a sandbox: subgraph/ }).waitFor();
  await page.getByLabel("Idea").fill("tea");
  await page.getByRole("button", { name: "Run on a new thread" }).click();
  await node(page, "trial:decide", "waiting").waitFor();
  await node(page, "trial:measure", "done").waitFor();
  await page.getByText("The trial of tea was successful.").first().waitFor();
  await checkPage(page, "a sandboxed graph");

  // The sandbox ended with the run. After a reload of the page, another sandbox resumes the subgraph.
  await page.reload();
  await node(page, "trial:decide", "waiting").waitFor();
  await page.getByLabel("Answer", { exact: true }).fill("yes");
  await page.getByRole("button", { name: "Resume" }).click();
  await node(page, "publish", "done").waitFor();
  await node(page, "trial:decide", "done").waitFor();
  await page.getByRole("tab", { name: "State" }).click();
  await page.getByText("published: yes", { exact: true }).waitFor();
  await close();
});

test("a run stops at a breakpoint", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/studio?graph=research`);
  await page.getByRole("button", { name: /^summarize: .*Set a breakpoint/ }).click();
  await page.getByLabel("Seconds").fill("0");
  await page.getByRole("button", { name: "Run on a new thread" }).click();
  await node(page, "summarize", "next").waitFor();
  await page.getByRole("button", { name: /^summarize: .*Remove the breakpoint/ }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await node(page, "summarize", "done").waitFor();
  await close();
});

test("a chat streams tokens, shows tool calls and keeps markup as text", { timeout: 1_800_000 }, async () => {
  // The store has no index, so it refuses the first query.
  const { page, close } = await openPage(browser, server, { expected: [/status of 422/] });
  await page.goto(`${server.url}/studio?graph=assistant`);
  const attack = "<img src=x onerror=alert(1)><script>alert(2)</script> [x](javascript:alert(3))";
  await page.getByLabel("Message").fill(attack);
  await page.getByLabel("Message").press("Enter");
  const chat = page.getByRole("log", { name: "Conversation" });
  await chat.getByRole("article", { name: "Model" }).getByText("You wrote").waitFor();
  await node(page, "model", "done").waitFor();
  await page.getByLabel("Message").fill("How is the weather?");
  await page.getByRole("button", { name: "Send" }).click();
  await chat.getByText("Calls weather").waitFor();
  await chat.getByText("The tool says: it rains in Rome.").waitFor();
  for (const name of [/^Checkpoint/, "Threads"]) {
    await page
      .getByRole("region", { name })
      .getByText(/tokens in, 36 out/)
      .waitFor();
  }
  await checkBoth(page, "studio-chat");
  await page.getByRole("tab", { name: "Runs (2)" }).click();
  const runs = page.getByRole("tabpanel", { name: /^Runs/ }).getByRole("listitem");
  await runs
    .filter({ hasText: "weather" })
    .getByText(/tokens in, 24 out/)
    .waitFor();
  await runs
    .filter({ hasText: "onerror" })
    .getByText(/tokens in, 12 out/)
    .waitFor();
  await page.getByRole("tab", { name: "Chat" }).click();

  // The button is enabled when the previous run has ended; until then, the Enter key has no effect.
  await page.getByLabel("Message").fill("Send a mail.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByLabel("Decision on send_mail").selectOption("reject");
  await page.getByRole("button", { name: "Resume" }).click();
  await chat.getByText("The tool says: the mail was not sent.").waitFor();
  const made = await page.evaluate(() => ({
    scripts: [...document.scripts].filter((it) => !it.src.startsWith(location.origin)).length,
    images: [...document.images].filter((it) => it.src.endsWith("/x")).length,
    links: document.querySelectorAll('a[href^="javascript:"]').length,
  }));
  assert.deepEqual(made, { scripts: 0, images: 0, links: 0 });

  await page.getByRole("link", { name: "Store" }).click();
  await page.getByRole("button", { name: "questions" }).click();
  await page.getByText("How is the weather?").waitFor();
  await page.getByRole("button", { name: "New item" }).click();
  const dialog = page.getByRole("dialog", { name: "New item" });
  await dialog.getByLabel("Key").fill("mine");
  await dialog.getByLabel("Value (JSON)").fill('{ "text": "kept" }');
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("kept").waitFor();
  await checkPage(page, "the store");
  await shoot(page, "studio-store");
  await page.getByLabel("Search the items").fill("KEPT");
  await page.getByText("Items (1)").waitFor();
  await page.getByRole("button", { name: "Delete mine" }).click();
  await page.getByRole("dialog", { name: "Delete mine?" }).getByRole("button", { name: "Delete the item" }).click();
  await page.getByText("kept").waitFor({ state: "detached" });
  await close();
});

test("the studio works on a phone and with the keyboard", { timeout: 1_800_000 }, async () => {
  const thread = await finishedRun(server, "review", { topic: "paper" });
  const phone = await openPage(browser, server, PHONE);
  await phone.page.goto(`${server.url}/studio?graph=review&thread=${thread}`);
  await node(phone.page, "review", "waiting").waitFor();
  await checkBoth(phone.page, "studio-phone");
  await phone.page.getByRole("button", { name: "Show", exact: true }).click();
  await phone.page.getByLabel("Search the threads").fill("paper");
  await phone.page.getByRole("link", { name: /paper/ }).waitFor();
  await checkPage(phone.page, "threads on a phone");
  await phone.close();

  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/studio?graph=review&thread=${thread}`);
  await step(page, /write/).waitFor();
  await page.keyboard.press("k");
  await page.waitForURL(/checkpoint=/);
  await page.keyboard.press("j");
  await page.waitForURL((it) => !it.search.includes("checkpoint"));
  await page.keyboard.press("?");
  const shortcuts = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await shortcuts.waitFor();
  await shoot(page, "studio-shortcuts");
  await page.keyboard.press("Escape");
  // The page ignores shortcuts while a dialog is open, and a closed dialog is removed a moment later.
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Search the threads");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("n");
  await page.waitForURL((it) => !it.search.includes("thread"));
  await close();
});

test("threads that are not among the newest ones are found", { timeout: 1_800_000 }, async () => {
  const thread_id = "feedc0de-0000-7000-8000-000000000000";
  await newThread(server, "research", { thread_id, metadata: { user: "ann" } });
  for (let count = 0; count < 60; count++) await newThread(server, "research", { metadata: { user: "bob" } });
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/studio?graph=research`);
  const found = page.getByRole("region", { name: "Threads" }).getByRole("listitem");
  await eventually(async () => assert.equal(await found.count(), 50, "the newest threads are shown"));
  const search = page.getByLabel("Search the threads");
  for (const query of ["feedc0de", thread_id, "user=ann", "ANN"]) {
    await search.fill(query);
    await eventually(async () => assert.equal(await found.count(), 1, query));
    await found.getByRole("link", { name: thread_id }).waitFor();
  }
  await search.fill("feedc0de user=bob");
  await page.getByText("No thread matches.").waitFor();
  await checkPage(page, "a search without results");
  await search.fill("user=bob");
  await eventually(async () => assert.equal(await found.count(), 50));
  await page.getByRole("button", { name: "Older threads" }).click();
  await eventually(async () => assert.equal(await found.count(), 60));
  await page.getByRole("button", { name: "Older threads" }).waitFor({ state: "detached" });
  await close();
});

test("errors of the server are displayed", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { expected: [/status of 4(04|22)/] });
  await page.goto(`${server.url}/studio?graph=nowhere`);
  await page.getByRole("alert").getByText("This server has no graph “nowhere”.").waitFor();
  await page.goto(`${server.url}/studio?graph=review&thread=01a1e671-0000-7000-8000-000000000000`);
  await page.getByRole("alert").getByText("The thread could not be loaded").waitFor();
  await close();
});
