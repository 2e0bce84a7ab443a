/** Browser helpers that record console errors, dialogs and foreign requests. */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import axe from "axe-core";
import { chromium } from "playwright-core";

const SCREENSHOT_DIR = process.env.SCREENSHOTS ?? fileURLToPath(new URL("../screenshots/", import.meta.url));

/** Longest wait for anything on a page, on a slow and busy machine. */
const WAIT_MS = 240_000;

export const DESKTOP = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

export async function launchBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
    timeout: WAIT_MS,
  });
}

/**
 * Opens a page. `expected` lists console messages that the test expects, and `origins` the servers to which the page may
 * send requests. Motion is reduced by default, because axe reports elements that overlap during an animation.
 */
export async function openPage(browser, server, { expected = [], origins = [server.url], ...options } = {}) {
  const context = await browser.newContext({
    ...DESKTOP,
    colorScheme: "light",
    reducedMotion: "reduce",
    ...options,
  });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const errors = [];
  page.on("console", (it) => {
    const text = it.text();
    if (["error", "warning"].includes(it.type()) && !expected.some((one) => one.test(text))) errors.push(text);
  });
  page.on("pageerror", (it) => errors.push(`uncaught: ${it.message}`));
  page.on("dialog", async (it) => {
    errors.push(`a dialog opened: ${it.message()}`);
    await it.dismiss();
  });
  page.on("request", (it) => {
    const { protocol, origin } = new URL(it.url());
    if (!["data:", "blob:"].includes(protocol) && !origins.includes(origin))
      errors.push(`request to another origin: ${it.url()}`);
  });
  return {
    page,
    /** Closes the page and fails if it recorded errors. */
    async close() {
      await context.close();
      assert.deepEqual(errors, []);
    },
  };
}

/** Repeats a check until it succeeds. Fails with its last error. */
export async function eventually(check) {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Accessibility rules that every page must satisfy. */
const ALL_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** The only rules whose result depends on the colour scheme. */
const COLOR_RULES = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

/** Fails if the page violates accessibility rules or overflows horizontally. */
export async function checkPage(page, state) {
  await settled(page);
  await checkSettled(page, state, ALL_RULES);
}

async function checkSettled(page, state, rules) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
  const { violations } = await page.evaluate(
    (runOnly) => globalThis.axe.run(document, { runOnly, resultTypes: ["violations"] }),
    rules,
  );
  const found = violations.flatMap((it) =>
    it.nodes.slice(0, 4).map((node) => `${it.id}: ${node.failureSummary} ${node.html}`),
  );
  assert.deepEqual(found, [], `accessibility of ${state}`);
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.ok(overflow <= 0, `${state} overflows horizontally by ${overflow} px`);
}

/** Waits for rendering and for animations to finish, except infinite ones such as spinners. */
async function settled(page) {
  await page.waitForTimeout(100);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.waitForFunction(() =>
    document.getAnimations().every((it) => it.playState !== "running" || it.effect.getTiming().iterations === Infinity),
  );
}

/** Saves a screenshot for the documentation. */
export async function shoot(page, name) {
  await settled(page);
  await shootSettled(page, name);
}

async function shootSettled(page, name) {
  await mkdir(SCREENSHOT_DIR, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOT_DIR, `${name}.png`) });
}

/** States that the documentation also shows in dark colours. */
const SHOWN_DARK = [
  "live",
  "results",
  "debate",
  "phone-pipeline",
  "studio-running",
  "studio-interrupt",
  "studio-phone",
];

/** Checks a state in both colour schemes and saves a screenshot. */
export async function checkBoth(page, state) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await settled(page);
    if (colorScheme === "light" || SHOWN_DARK.includes(state)) await shootSettled(page, `${state}-${colorScheme}`);
    await checkSettled(page, `${state}, ${colorScheme}`, colorScheme === "light" ? ALL_RULES : COLOR_RULES);
  }
}

/** Starts a run over HTTP. */
export async function startRun(server, options) {
  const answer = await fetch(`${server.url}/api/analyze`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(options),
  });
  assert.equal(answer.status, 202);
  return (await answer.json()).analysis_id;
}

/** Waits until a run has one of the given statuses, and returns it. */
export async function untilRun(server, id, ...states) {
  for (let attempt = 0; attempt < 4800; attempt += 1) {
    const run = await (await fetch(`${server.url}/api/runs/${id}`)).json();
    if (states.includes(run.status)) return run;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`${id} did not become ${states.join(" or ")}`);
}
