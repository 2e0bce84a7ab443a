/** From a ticker to the report of fifteen moves, watched in a browser. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { checkBoth, checkPage, launchBrowser, openPage, shoot, startRun } from "./browser.mjs";
import { startServer } from "./server.mjs";

let server, browser;
before(async () => {
  // No faster than can be watched.
  server = await startServer({ args: ["--answer-ms", "20"] });
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a whole run, with a reload in the middle", { timeout: 240_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(server.url);
  await page.getByText("924").first().waitFor();
  await checkBoth(page, "home");

  await page.getByLabel("Ticker").fill("nvda");
  await page.getByText("Options").click();
  await page.getByLabel("Debates at once").fill("3");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL(/\/runs\/nvda-/);
  await page.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /rank 1, \d+ of 120 points/ }).waitFor({ timeout: 60_000 });

  const scored = () => page.getByRole("button", { name: /rank \d+, \d+ of 120 points/ }).count();
  const before = await scored();
  await page.reload();
  await page.getByRole("button", { name: /rank 1, \d+ of 120 points/ }).waitFor();
  assert.ok((await scored()) >= before, "a reload loses no score");
  assert.equal(await page.getByRole("button", { name: /: agent done$/ }).count(), 9, "nor an agent");

  await page.getByText("The run is complete: read the results").waitFor({ timeout: 200_000 });
  await page.getByText("The run is complete: read the results").click();
  await page.getByRole("heading", { name: "Recommended" }).waitFor();
  assert.equal(await page.getByRole("article").count(), 3, "three are recommended");
  assert.equal(
    (await page.getByRole("img", { name: /Impact \d+ of 10/ }).count()) >= 9,
    true,
    "a radar a decision maker",
  );
  assert.ok(await page.getByRole("heading", { name: "The other 12" }).isVisible());
  assert.ok(await page.getByText("Invented data.").isVisible());
  assert.ok(await page.getByText("Scripted model.").isVisible());
  assert.ok(await page.getByText("Verdict:").isVisible());
  await checkBoth(page, "results");

  // Every event that is stored is what the page shows: the board's order is the report's.
  const id = page.url().match(/runs\/([^?]+)/)[1];
  const { result } = await (await fetch(`${server.url}/api/results/${id}`)).json();
  const ranking = [...result.ranking.recommended, ...result.ranking.other].map((it) => it.move_id);
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.locator("[data-move]").first().waitFor();
  const shown = await page.locator("[data-move]").evaluateAll((all) => all.map((it) => it.dataset.move));
  assert.deepEqual(shown, ranking, "the leaderboard ends as the ranking");
  await shoot(page, "pipeline-done");
  await close();
});

test("a run while it works", { timeout: 180_000 }, async () => {
  // Slow enough that it still goes on when everything about it is looked at.
  const server = await startServer({ args: ["--answer-ms", "400"] });
  const { page, close } = await openPage(browser, server);
  const id = await startRun(server, { ticker: "LIVE", rounds: 50 });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();
  await checkBoth(page, "live");

  await page.getByRole("button", { name: /^m1 .*: debate running/ }).click();
  await page.getByRole("heading", { name: /Critic against Growth Strategist/ }).waitFor();
  const opened = await page.getByRole("region", { name: /^Round \d+$/ }).count();
  await page.waitForFunction((n) => document.querySelectorAll('section[aria-label^="Round "]').length > n, opened);
  assert.ok(await page.getByRole("img", { name: /^Graph of the debate, now: (critic|makers)/ }).isVisible());
  await checkPage(page, "a debate that goes on");
  await shoot(page, "debate-live");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("[data-status=cancelled]").waitFor();
  await close();
  await server.stop();
});

test("zoom from layers to agents to a debate and its citations", { timeout: 120_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  const { runs } = await (await fetch(`${server.url}/api/runs`)).json();
  const done = runs.find((it) => it.status === "complete");
  await page.goto(`${server.url}/runs/${done.id}?view=pipeline`);

  await page.getByRole("button", { name: "Layers" }).click();
  await page.waitForFunction(() => document.querySelectorAll('button[aria-label*=": agent "]').length === 0);
  await shoot(page, "zoom-layers");
  await page.getByRole("button", { name: /^Findings .*: layer done/ }).click();
  await page.getByText("Two readers draw numbered findings").waitFor();
  await page.getByRole("button", { name: /^Trend inference .*: agent done/ }).waitFor();
  await checkBoth(page, "zoom-layer");
  await page.getByRole("button", { name: /^Trend inference .*: agent done/ }).click();
  await page.getByText("F2.md").first().waitFor();
  await shoot(page, "zoom-agent");
  await page.getByRole("button", { name: "Agents", exact: true }).click();
  await page.getByRole("button", { name: /^m1 .*: debate/ }).click();

  await page.getByRole("region", { name: "Round 10" }).waitFor();
  for (const log of [1, 2, 3]) {
    const column = page.locator(`section[aria-label="Round 1"] > div:last-child > div:nth-child(${log})`);
    assert.equal(await column.getByRole("article").count(), 2, "the critic and an answer in each thread");
  }
  await checkBoth(page, "debate");
  const citation = page
    .getByRole("region", { name: "Round 1", exact: true })
    .getByRole("button", { name: /^Finding F\d-\d+$/ })
    .first();
  await citation.click();
  await page
    .getByRole("dialog", { name: /^Finding F/ })
    .getByText(/strength \d/)
    .waitFor();
  await shoot(page, "citation");
  await page.keyboard.press("Escape");
  assert.ok(await page.getByText("in no finding and not in the data").first().isVisible(), "flags stand at the turn");

  await page.getByRole("tab", { name: "Documents" }).click();
  await page.getByText("SYNTHETIC DATA.").waitFor();
  await checkPage(page, "documents");
  await shoot(page, "documents");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Downloads" }).click();
  await shoot(page, "downloads");
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /scores\.csv/ })
    .click();
  assert.match((await download).suggestedFilename(), /scores\.csv$/);
  await close();
});
