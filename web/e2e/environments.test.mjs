/** Tests that run only in the nightly build: lost connection, colour scheme, API key, and the list of runs. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { checkBoth, checkPage, eventually, launchBrowser, openPage, shoot, startRun, untilRun } from "./browser.mjs";
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
