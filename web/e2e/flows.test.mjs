/**
 * Tests that run in ordinary CI, in addition to the whole run: injected markup, fork, comparison, failure, phone,
 * keyboard. They share one server, one browser and one complete run, and run at the same time.
 */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

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
import { startServer } from "./server.mjs";

let server, browser;
/** Resolves to the id of a complete run. */
let done;
before(async () => {
  // One after the other: if the second one does not start, `after` can still stop the first.
  server = await startServer();
  browser = await launchBrowser();
  done = completeRun();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function completeRun() {
  const id = await startRun(server, { ticker: "DONE", rounds: 2 });
  await untilRun(server, id, "complete");
  return id;
}

describe("flows", { concurrency: true }, () => {
  test("all pages fit on a phone", { timeout: 1_800_000 }, async () => {
    const id = await done;
    const { page, close } = await openPage(browser, server, PHONE);
    await page.goto(server.url);
    await page.getByRole("link", { name: /DONE/ }).first().waitFor();
    await checkBoth(page, "phone-home");
    await page.goto(`${server.url}/runs/${id}`);
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

  test("a review drops and edits moves, and injected markup stays text", { timeout: 1_800_000 }, async () => {
    const id = await startRun(server, { ticker: "REVW", rounds: 1, review: true });
    await untilRun(server, id, "waiting");
    const { page, close } = await openPage(browser, server);
    await page.goto(`${server.url}/runs/${id}`);
    await page.getByText("15 of 15 moves will be debated").waitFor();
    await checkBoth(page, "review");

    await page.getByRole("button", { name: "Drop m2", exact: true }).click();
    await page.getByRole("button", { name: "Edit m1", exact: true }).click();
    const attack = '<script>alert("title")</script><img src=x onerror=alert(1)>';
    await page.getByLabel("Title").fill(`Sell it ${attack}`);
    await page.getByLabel("Thesis").fill(`${attack} [read](javascript:alert(2)) and so on [F1-01].`);
    await shoot(page, "review-edit");
    await page.getByRole("button", { name: "Done", exact: true }).click();
    await page.getByRole("button", { name: "Debate 14 moves" }).click();
    await untilRun(server, id, "complete");

    await page.getByText("The run is complete: view the results").click();
    await page.getByRole("heading", { name: /Recommended/ }).waitFor();
    // The dropped move is not listed.
    await page.getByRole("heading", { name: "Other moves (11)" }).waitFor();
    await page.goto(`${server.url}/runs/${id}?view=debates&move=m1`);
    await page.getByRole("heading", { name: `Sell it ${attack}` }).waitFor();
    await page.goto(`${server.url}/runs/${id}?view=documents`);
    await page.getByRole("button", { name: /^m1 · Sell it/ }).click();
    await page.getByText("[read](javascript:alert(2))").waitFor();
    await shoot(page, "injected");
    const made = await page.evaluate(() => ({
      scripts: [...document.scripts].filter((it) => it.src === "" || !it.src.startsWith(location.origin)).length,
      images: [...document.images].filter((it) => it.src.endsWith("/x")).length,
      links: document.querySelectorAll('a[href^="javascript:"]').length,
    }));
    assert.deepEqual(made, { scripts: 0, images: 0, links: 0 });
    await close();
  });

  test("a debate is forked from a round and compared with the original", { timeout: 1_800_000 }, async () => {
    const id = await done;
    const { page, close } = await openPage(browser, server);
    await page.goto(`${server.url}/runs/${id}?view=debates&move=m4`);
    await page.getByRole("button", { name: "Fork here, m4 round 2" }).click();
    const dialog = page.getByRole("dialog", { name: `Fork ${id}` });
    assert.equal(await dialog.getByLabel("Starting point").inputValue(), "m4");
    assert.equal(await dialog.getByLabel("Round").inputValue(), "2");
    await dialog.getByText(/^Estimate: about/).waitFor();
    assert.match(await dialog.getByLabel("Persona").inputValue(), /chief financial officer/);
    await dialog.getByLabel("Persona").fill("You are a cautious auditor.");
    await dialog.getByLabel("Temperature").fill("0.2");
    await checkBoth(page, "fork");
    await dialog.getByRole("button", { name: "Start fork" }).click();
    await page.waitForURL((it) => it.pathname.startsWith("/runs/") && !it.pathname.endsWith(id));
    const fork = page.url().match(/runs\/([^?]+)/)[1];
    const run = await untilRun(server, fork, "complete");
    assert.deepEqual(run.branch, {
      from: id,
      at: "m4:r2",
      only: true,
      set: ["critic.persona=You are a cautious auditor.", "models.critic.temperature=0.2"],
    });
    await page.getByText("forked from").waitFor();

    await page.getByRole("button", { name: "Compare" }).click();
    await page
      .getByRole("dialog", { name: "Compare with" })
      .getByRole("link", { name: /forked from/ })
      .click();
    await page.waitForURL(/\/compare\?/);
    await page
      .getByText(/^critic\./)
      .first()
      .waitFor();
    await page.getByText(/m4:r2/).first().waitFor();
    await checkBoth(page, "compare");

    await page.goto(server.url);
    await page.getByLabel(`Select ${id} for comparison`).check();
    await page.getByLabel(`Select ${fork} for comparison`).check();
    await page.getByRole("button", { name: "Compare selected runs" }).click();
    await page.getByRole("heading", { name: "Comparison of two runs" }).waitFor();
    await close();
  });

  test("a failed run shows the reason and resumes with a larger budget", { timeout: 1_800_000 }, async () => {
    const id = await startRun(server, { ticker: "FAIL", rounds: 1, max_tokens: 1000 });
    await untilRun(server, id, "error");
    const { page, close } = await openPage(browser, server);
    await page.goto(`${server.url}/runs/${id}`);
    await page
      .getByRole("alert")
      .getByText(/the budget does not cover the call/)
      .waitFor();
    await page.getByRole("button", { name: /^Findings .*: layer failed/ }).waitFor();
    await checkBoth(page, "failed");
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByLabel("Token limit").fill("100000000");
    await checkPage(page, "resume");
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page
      .getByText("The run is complete: view the results")
      .or(page.getByRole("heading", { name: "Recommended" }))
      .first()
      .waitFor();
    await eventually(async () => assert.equal(await page.getByRole("alert").count(), 0, "no error is shown"));
    await close();
  });
});
