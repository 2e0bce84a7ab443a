/** Several tabs of one browser. A browser opens at most six connections to a server, and all its tabs share them. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { eventually, launchBrowser, openPage, startRun, untilRun } from "./browser.mjs";
import { SLOW, startServer } from "./server.mjs";

let server, browser;
before(async () => {
  server = await startServer({ args: [...SLOW, "--max-runs", "2"] });
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Records the event streams that the tabs of a browser keep open. */
function recordStreams(context) {
  const open = new Set();
  const closed = (it) => open.delete(it);
  context.on("request", (it) => {
    if (new URL(it.url()).pathname.startsWith("/api/stream/")) open.add(it);
  });
  context.on("requestfailed", closed);
  context.on("requestfinished", closed);
  return {
    /** Tabs that keep a stream open. */
    tabs: () => [...open].map((it) => it.frame().page()).filter((it) => !it.isClosed()),
  };
}

/** Makes `document.visibilityState` settable, because tabs without a window are always visible. */
async function simulateVisibility(context) {
  await context.addInitScript(() => {
    let state = "visible";
    Object.defineProperty(document, "visibilityState", { get: () => state });
    globalThis.setVisibility = (it) => {
      state = it;
      document.dispatchEvent(new Event("visibilitychange"));
    };
  });
  return (tab, state) => tab.evaluate((it) => globalThis.setVisibility(it), state);
}

/** Waits until exactly one tab keeps a stream open, and returns the tab. */
async function untilOneStream(streams) {
  return eventually(() => {
    const tabs = streams.tabs();
    assert.equal(tabs.length, 1, "one tab keeps a stream open");
    return tabs[0];
  });
}

/** Returns the number of turns in the debate of m1 that a tab should show. */
async function turnsOfFirstMove(run) {
  const { events } = await (await fetch(`${server.url}/api/runs/${run}/events?after=0&limit=1000`)).json();
  const spoken = events.filter((it) => it.move === "m1" && it.texts).length;
  assert.ok(spoken > 0, "a turn of m1 is complete");
  // The critic opens all three conversations with the same turn, which is shown once.
  return spoken * 3 - 2;
}

test("seven tabs share one stream and miss no events", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  const context = page.context();
  const setVisibility = await simulateVisibility(context);
  const streams = recordStreams(context);
  const runs = [];
  for (const ticker of ["ONE", "TWO"]) {
    runs.push(await startRun(server, { ticker, rounds: 50, concurrency: 1 }));
  }
  let tabs = [];
  for (let idx = 0; idx < 7; idx += 1) {
    const tab = idx === 0 ? page : await context.newPage();
    const run = runs[idx % 2];
    await tab.goto(`${server.url}/runs/${run}`);
    tabs.push({ tab, run });
  }
  for (const { tab } of tabs) await tab.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();

  // A hidden tab releases its stream, and another tab opens one.
  const hidden = await untilOneStream(streams);
  await setVisibility(hidden, "hidden");
  await eventually(() => assert.ok(!streams.tabs().includes(hidden), "the hidden tab has no stream"));
  const holder = await untilOneStream(streams);
  assert.notEqual(holder, hidden);

  // The same holds for a closed tab.
  await holder.close();
  tabs = tabs.filter((it) => it.tab !== holder);
  const last = await untilOneStream(streams);
  assert.notEqual(last, hidden);

  // Hidden tabs keep no stream open at all.
  for (const { tab } of tabs) await setVisibility(tab, "hidden");
  await eventually(() => assert.deepEqual(streams.tabs(), []));
  for (const { tab } of tabs) await setVisibility(tab, "visible");
  await untilOneStream(streams);

  for (const run of runs) {
    await eventually(() => turnsOfFirstMove(run));
    const answer = await fetch(`${server.url}/api/runs/${run}/cancel`, { method: "POST" });
    assert.ok(answer.ok, `cancel: ${answer.status}`);
    await untilRun(server, run, "cancelled");
  }
  for (const { tab, run } of tabs) {
    await tab.locator("[data-status=cancelled]").waitFor();
    await tab.getByRole("tab", { name: "Debates" }).click();
    const turns = await turnsOfFirstMove(run);
    await eventually(async () => assert.equal(await tab.getByRole("article").count(), turns));
  }
  await eventually(() => assert.deepEqual(streams.tabs(), []));
  await close();
});
