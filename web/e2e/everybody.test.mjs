/** A phone, the keyboard alone, less motion, a lost connection, a server with a key. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { PHONE, checkBoth, checkPage, launchBrowser, openPage, shoot, startRun, untilRun } from "./browser.mjs";
import { startServer } from "./server.mjs";

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

test("everything fits on a phone", { timeout: 120_000 }, async () => {
  const { page, close } = await openPage(browser, server, PHONE);
  await page.goto(server.url);
  await page.getByRole("link", { name: /DONE/ }).first().waitFor();
  await checkBoth(page, "phone-home");
  await page.goto(`${server.url}/runs/${done}`);
  await page.getByRole("heading", { name: "Recommended" }).waitFor();
  await checkBoth(page, "phone-results");
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /^Debates .*: layer/ }).waitFor();
  await checkBoth(page, "phone-pipeline");
  await page.getByRole("button", { name: "Agents", exact: true }).click();
  await page.getByRole("button", { name: /^m5 .*: debate/ }).click();
  await page.getByRole("tab", { name: /D2/ }).click();
  await page.getByText("Operational Pragmatist (D2)").last().waitFor();
  await page.getByRole("region", { name: "Round 1" }).scrollIntoViewIfNeeded();
  await checkBoth(page, "phone-debate");
  await close();
});

test("the keyboard is enough, from the ticker to a finding", { timeout: 120_000 }, async () => {
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
  await tabTo(/^Skip to the content/);
  await tabTo(/^Ticker/);
  await page.keyboard.type("keys");
  await tabTo(/^Options/);
  await page.keyboard.press("Enter");
  await tabTo(/^Rounds/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("1");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\/keys-/);
  const id = page.url().match(/runs\/([^?]+)/)[1];
  await untilRun(server, id, "complete");
  await page
    .getByText("The run is complete: read the results")
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
  assert.notEqual(outline, "none", "the focus is seen");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Round 1" }).waitFor();
  await tabTo(/^Finding F\d-\d+/);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: /^Finding/ }).waitFor();
  await page.keyboard.press("Escape");
  await tabTo(/^Fork here/);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: /^Fork/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog[open]"));
  await close();
});

test("a lost connection is said, and nothing is lost by it", { timeout: 120_000 }, async () => {
  const { page, close } = await openPage(browser, server, { expected: [/ERR_|Failed to load resource/] });
  const id = await startRun(server, { ticker: "LOST", rounds: 10, concurrency: 2 });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();
  for (let cut = 0; cut < 3; cut += 1) {
    server.cut();
    await page.getByText("Connection lost, trying again.").waitFor();
    if (cut === 0) {
      await checkPage(page, "lost");
      await shoot(page, "lost");
    }
    server.mend();
    await page.getByText("Connection lost, trying again.").waitFor({ state: "detached" });
  }
  await untilRun(server, id, "complete");
  await page.getByRole("heading", { name: "Recommended" }).or(page.getByText("read the results")).first().waitFor();
  await page.goto(`${server.url}/runs/${id}?view=debates&move=m1`);
  await page.getByRole("region", { name: "Round 10" }).waitFor();
  const { events } = await (await fetch(`${server.url}/api/runs/${id}/events?after=0&limit=1000`)).json();
  const turns = events.filter((it) => it.move === "m1" && it.said).length * 3;
  assert.equal(await page.getByRole("article").count(), turns, "each turn stands there once");
  await close();
});

test("the colours can be chosen and stay chosen", { timeout: 60_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(server.url);
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  const choose = page.getByRole("button", { name: /^Colours:/ });
  await choose.click();
  await choose.click();
  assert.notEqual(await ground(), light);
  const dark = await ground();
  await page.reload();
  assert.equal(await ground(), dark);
  await close();
});

test("a server with a key asks for it", { timeout: 60_000 }, async (t) => {
  if (process.env.SERVER) return t.skip("needs a server of its own");
  const locked = await startServer({ env: { CONSULTING_API_KEY: "a key for this test alone 0123456789" } });
  try {
    const { page, close } = await openPage(browser, locked, { expected: [/status of 401/] });
    await page.goto(locked.url);
    const dialog = page.getByRole("dialog", { name: "This server asks for an API key" });
    await dialog.getByLabel("API key").fill("wrong");
    await dialog.getByRole("button", { name: "Use this key" }).click();
    await dialog.getByText("The server does not accept this key.").waitFor();
    await checkBoth(page, "key");
    await dialog.getByLabel("API key").fill("a key for this test alone 0123456789");
    await dialog.getByRole("button", { name: "Use this key" }).click();
    await page.getByText("No run yet.").waitFor();
    await page.getByLabel("Ticker").fill("LOCK");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("button", { name: /^m1 .*: debate/ }).waitFor();
    await close();
  } finally {
    await locked.stop();
  }
});
