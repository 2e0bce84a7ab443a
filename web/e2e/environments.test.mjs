/** Environments: phone, keyboard only, reduced motion, lost connection, API key. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  PHONE,
  checkBoth,
  checkPage,
  eventually,
  launchBrowser,
  openPage,
  shoot,
  startRun,
  untilRun,
} from "./browser.mjs";
import { SLOW, startServer } from "./server.mjs";

let server, browser, done;
before(async () => {
  server = await startServer();
  browser = await launchBrowser();
  done = await startRun(server, { ticker: "DONE", rounds: 2 });
  await untilRun(server, done, "complete");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("all pages fit on a phone", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, PHONE);
  await page.goto(server.url);
  await page.getByRole("link", { name: /DONE/ }).first().waitFor();
  await checkBoth(page, "phone-home");
  await page.goto(`${server.url}/runs/${done}`);
  await page.getByRole("heading", { name: "Recommended" }).waitFor();
  await checkBoth(page, "phone-results");
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(height < 4500, `the results are ${height} px high on a phone`);
  await page.getByText("Other moves (12)").click();
  await page.getByRole("heading", { name: "Other moves (12)" }).waitFor();
  await page.getByRole("tab", { name: "Timeline" }).click();
  await page.getByRole("row", { name: /^m15/ }).waitFor();
  await checkBoth(page, "phone-timeline");
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /^Debates .*: layer/ }).waitFor();
  await checkBoth(page, "phone-pipeline");
  await page.getByRole("button", { name: "Agents", exact: true }).click();
  await page.getByRole("button", { name: /^m5 .*: debate/ }).click();
  await page.getByRole("button", { name: /^D2/ }).click();
  await page.getByText("Operational Pragmatist (D2)").last().waitFor();
  await page.getByRole("region", { name: "Round 1" }).scrollIntoViewIfNeeded();
  await checkBoth(page, "phone-debate");
  await close();
});

test("a run can be started and read with the keyboard alone", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { reducedMotion: "reduce" });
  await page.goto(server.url);
  await page.getByLabel("Ticker").waitFor();
  const tabTo = async (name) => {
    for (let step = 0; step < 80; step += 1) {
      await page.keyboard.press("Tab");
      const label = await page.evaluate(() => {
        const it = document.activeElement;
        return it?.getAttribute("aria-label") ?? it?.labels?.[0]?.textContent ?? it?.textContent ?? "";
      });
      if (name.test(label.trim())) return;
    }
    assert.fail(`Tab does not reach ${name}`);
  };
  await tabTo(/^Skip to content/);
  await tabTo(/^Ticker/);
  await page.keyboard.type("keys");
  await tabTo(/^Options/);
  await page.keyboard.press("Enter");
  await tabTo(/^Rounds/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("1");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\/keys-/);
  await page.waitForFunction(() => document.activeElement?.id === "main");
  const id = page.url().match(/runs\/([^?]+)/)[1];
  await untilRun(server, id, "complete");
  await page
    .getByText("The run is complete: view the results")
    .or(page.getByRole("heading", { name: "Recommended" }))
    .first()
    .waitFor();
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("heading", { name: "Recommended" }).waitFor();

  await tabTo(/^Results$/);
  await page.keyboard.press("ArrowRight");
  await page.getByRole("tab", { name: "Pipeline", selected: true }).waitFor();
  await page.getByRole("button", { name: /^m1 .*: debate/ }).waitFor();
  await tabTo(/^Debates .*: layer/);
  await page.keyboard.press("Enter");
  await tabTo(/^m1 .*: debate/);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outline, "none", "the focus is visible");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Round 1" }).waitFor();
  await tabTo(/^Finding F\d-\d+/);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: /^Finding/ }).waitFor();
  await page.keyboard.press("Escape");
  await tabTo(/^Fork here/);
  const dialog = page.getByRole("dialog", { name: /^Fork/ });
  for (const leave of [
    () => page.keyboard.press("Escape"),
    () => dialog.getByText("Close", { exact: true }).press("Enter"),
  ]) {
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    await leave();
    await dialog.waitFor({ state: "detached" });
    const focus = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
    assert.match(focus ?? "", /^Fork here/, "closing a dialog restores the focus");
  }
  await close();
});

test("the runs are filtered and deleted, and a debate has a trace", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  const ids = [];
  for (const ticker of ["ALFA", "BETA", "GAMA"]) {
    ids.push(await startRun(server, { ticker, rounds: 1, review: true }));
    await untilRun(server, ids.at(-1), "waiting");
  }
  await page.goto(server.url);
  const link = (name) => page.getByRole("link", { name });
  await link(/DONE/)
    .getByText(/ s · [\d.]+[KM] tokens · \$0\.00/)
    .waitFor();
  await page.getByRole("button", { name: "NVDA", exact: true }).click();
  assert.equal(await page.getByLabel("Ticker").inputValue(), "NVDA");
  await page.getByLabel("Filter the runs").fill("beta");
  await link(/ALFA/).waitFor({ state: "detached" });
  await link(/BETA/).waitFor();
  await page.getByRole("button", { name: `Delete ${ids[1]}` }).click();
  await checkBoth(page, "delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("No listed run matches the filter.").waitFor();
  assert.equal((await fetch(`${server.url}/api/runs/${ids[1]}`)).status, 404);

  await page.goto(`${server.url}/runs/${done}?view=debates&move=m4`);
  // The new tab opens when the server has replayed the run.
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: /^Trace/ }).click();
  const trace = await opened;
  await trace.getByRole("heading", { name: "DONE, debate of m4" }).waitFor();
  await trace.getByRole("listbox", { name: "Supersteps and tasks" }).waitFor();
  await shoot(trace, "trace");
  await close();
});

test("a lost connection is reported and loses no events", { timeout: 1_800_000 }, async (t) => {
  const server = await startServer({ args: SLOW });
  t.after(() => server.stop());
  const { page, close } = await openPage(browser, server, { expected: [/ERR_|Failed to load resource/] });
  const id = await startRun(server, { ticker: "LOST", rounds: 50, concurrency: 1 });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();
  for (let cut = 0; cut < 3; cut += 1) {
    server.disconnect();
    await page.getByText("Connection lost, reconnecting.").waitFor();
    if (cut === 0) {
      await checkPage(page, "lost");
      await shoot(page, "lost");
    }
    server.reconnect();
    await page.getByText("Connection lost, reconnecting.").waitFor({ state: "detached" });
  }
  await page.getByRole("button", { name: "Cancel" }).click();
  await untilRun(server, id, "cancelled");
  await page.locator("[data-status=cancelled]").waitFor();
  await page.getByRole("tab", { name: "Debates" }).click();
  const { events } = await (await fetch(`${server.url}/api/runs/${id}/events?after=0&limit=1000`)).json();
  // The critic opens all three conversations with the same turn, which is shown once.
  const turns = events.filter((it) => it.move === "m1" && it.texts).length * 3 - 2;
  await page.waitForFunction((n) => document.querySelectorAll("article").length >= n, turns);
  assert.equal(await page.getByRole("article").count(), turns, "each turn is shown once");
  await close();
});

test("failed requests are retried automatically", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { expected: [/ERR_|Failed to load resource/] });
  await page.route("**/api/results/**", (it) => it.abort());
  await page.route("**/api/graph", (it) => it.abort());
  await page.goto(`${server.url}/runs/${done}`);
  await page.getByRole("alert").getByText("Could not load the results").waitFor();
  await page.getByRole("alert").getByText("Could not load the pipeline graph").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.getByRole("heading", { name: "Recommended" }).waitFor();
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /^Debates .*: layer/ }).waitFor();
  await eventually(async () => assert.equal(await page.getByRole("alert").count(), 0, "the errors disappear"));
  await close();
});

test("the chosen colour scheme persists", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(server.url);
  const ground = (color) =>
    page.waitForFunction((it) => getComputedStyle(document.documentElement).backgroundColor === it, color);
  await ground("rgb(245, 246, 248)");
  const choose = page.getByRole("button", { name: /^Colour scheme:/ });
  await choose.click();
  await choose.click();
  await ground("rgb(14, 17, 23)");
  await page.reload();
  await ground("rgb(14, 17, 23)");
  await close();
});

test("a server with an API key asks for it", { timeout: 1_800_000 }, async (t) => {
  if (process.env.SERVER) return t.skip("requires its own server");
  // The page only sends requests while the run is active.
  const locked = await startServer({
    args: SLOW,
    env: { CONSULTING_API_KEY: "a key for this test alone 0123456789" },
  });
  try {
    const { page, close } = await openPage(browser, locked, { expected: [/status of 401/] });
    await page.goto(locked.url);
    const dialog = page.getByRole("dialog", { name: "This server requires an API key" });
    await dialog.getByLabel("API key").fill("wrong");
    await dialog.getByRole("button", { name: "Use this key" }).click();
    await dialog.getByText("The server does not accept this key.").waitFor();
    await checkBoth(page, "key");
    await dialog.getByLabel("API key").fill("a key for this test alone 0123456789");
    await dialog.getByRole("button", { name: "Use this key" }).click();
    await page.getByText("No runs yet.").waitFor();
    await page.getByLabel("Ticker").fill("LOCK");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("button", { name: /^m1 .*: debate/ }).waitFor();
    await page.evaluate(() => sessionStorage.setItem("api-key", "no longer the key"));
    await dialog.getByText("The server does not accept this key.").waitFor();
    await close();
  } finally {
    await locked.stop();
  }
});
