/** A real browser that notes everything a page should not do. */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import axe from "axe-core";
import { chromium } from "playwright-core";

const SHOTS = process.env.SCREENSHOTS ?? fileURLToPath(new URL("../screenshots/", import.meta.url));

export const DESKTOP = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

export async function launchBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/**
 * Opens a page. `expected` are messages of the console that belong to the test, like a refused request's.
 *
 * Nothing moves unless a test asks for it: rows on their way to another place lie over each other for a moment, which
 * axe takes for where they stay.
 */
export async function openPage(browser, server, { expected = [], ...options } = {}) {
  const context = await browser.newContext({
    ...DESKTOP,
    colorScheme: "light",
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const faults = [];
  page.on("console", (it) => {
    const text = it.text();
    if (["error", "warning"].includes(it.type()) && !expected.some((one) => one.test(text))) faults.push(text);
  });
  page.on("pageerror", (it) => faults.push(`uncaught: ${it.message}`));
  page.on("dialog", async (it) => {
    faults.push(`a dialog opened: ${it.message()}`);
    await it.dismiss();
  });
  page.on("request", (it) => {
    const { protocol, origin } = new URL(it.url());
    if (!["data:", "blob:"].includes(protocol) && origin !== server.url) faults.push(`asked elsewhere: ${it.url()}`);
  });
  return {
    page,
    /** Ends the page and fails if it did what it should not. */
    async close() {
      await context.close();
      assert.deepEqual(faults, []);
    },
  };
}

/** Fails where the page cannot be used by everybody, or is wider than its window. */
export async function checkPage(page, state) {
  await settled(page);
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  const found = violations.flatMap((it) =>
    it.nodes.slice(0, 4).map((node) => `${it.id}: ${node.failureSummary} ${node.html}`),
  );
  assert.deepEqual(found, [], `accessibility of ${state}`);
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(beyond <= 0, `${state} is ${beyond} px wider than its window`);
}

/** Waits for what moves to its place; what moves for ever, like a spinner, is not waited for. */
async function settled(page) {
  await page.waitForTimeout(100);
  await page.waitForFunction(() =>
    document.getAnimations().every((it) => it.playState !== "running" || it.effect.getTiming().iterations === Infinity),
  );
}

/** Keeps a picture for the documentation. */
export async function shoot(page, name) {
  await mkdir(SHOTS, { recursive: true });
  await settled(page);
  await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

/** The states of which the documentation shows the dark colours too. */
const SHOWN_DARK = ["live", "results", "debate", "phone-pipeline"];

/** Checks a state in both colour schemes and keeps a picture. */
export async function checkBoth(page, state) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await settled(page);
    if (colorScheme === "light" || SHOWN_DARK.includes(state)) await shoot(page, `${state}-${colorScheme}`);
    await checkPage(page, `${state}, ${colorScheme}`);
  }
}

/** Starts a run over HTTP, for tests that begin where it is already there. */
export async function startRun(server, options) {
  const answer = await fetch(`${server.url}/api/analyze`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(options),
  });
  assert.equal(answer.status, 202);
  return (await answer.json()).analysis_id;
}

/** Waits until a run has one of some states, and gives the run. */
export async function untilRun(server, id, ...states) {
  for (let attempt = 0; attempt < 1200; attempt += 1) {
    const run = await (await fetch(`${server.url}/api/runs/${id}`)).json();
    if (states.includes(run.status)) return run;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`${id} does not become ${states.join(" or ")}`);
}
