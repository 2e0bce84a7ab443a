/** A complete run with fifteen moves, from the ticker to the report. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { checkBoth, checkPage, eventually, launchBrowser, openPage, shoot, startRun } from "./browser.mjs";
import { SLOW, startServer } from "./server.mjs";

let server, browser;
before(async () => {
  // Slow enough to be observed.
  server = await startServer({ args: ["--answer-ms", "150"] });
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a complete run survives a reload", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { reducedMotion: "no-preference" });
  await page.goto(server.url);
  await page.getByText("924").first().waitFor();
  await checkBoth(page, "home");

  await page.getByLabel("Ticker").fill("nvda");
  await page.getByText("Options").click();
  await page.getByLabel("Concurrent debates").fill("3");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL(/\/runs\/nvda-/);
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /rank 1, \d+ of 120 points/ }).waitFor({ timeout: 800_000 });

  const scored = () => page.getByRole("button", { name: /rank \d+, \d+ of 120 points/ }).count();
  const before = await scored();
  await page.reload();
  await page.getByRole("button", { name: /rank 1, \d+ of 120 points/ }).waitFor();
  // The events of the run are replayed to the page, a few at a time.
  await eventually(async () => assert.ok((await scored()) >= before, "scores survive a reload"));
  const agents = page.getByRole("button", { name: /: agent done$/ });
  await eventually(async () => assert.equal(await agents.count(), 9, "agents survive a reload"));

  await page.getByText("The run is complete: view the results").waitFor({ timeout: 800_000 });
  assert.ok(
    await page.getByRole("tab", { name: "Pipeline", selected: true }).isVisible(),
    "the view does not change when the run completes",
  );
  await page.getByText("The run is complete: view the results").click();
  await page.getByRole("heading", { name: "Recommended" }).waitFor();
  await eventually(async () => assert.equal(await page.getByRole("article").count(), 3, "three moves are recommended"));
  const radars = page.getByRole("img", { name: /Impact \d+ of 10/ });
  await eventually(async () => assert.ok((await radars.count()) >= 9, "one radar chart per decision maker"));
  await page.getByRole("heading", { name: "Other moves (12)" }).waitFor();
  for (const chart of [/^Revenue/, /^Margins/, /^Revenue by segment/]) {
    await page.getByRole("img", { name: chart }).first().waitFor();
  }
  await page.getByText("Synthetic data.").waitFor();
  await page.getByText("Scripted model.").waitFor();
  await page.getByText("Recommendation:").waitFor();
  const summary = page.getByRole("region", { name: "Summary of the recommended moves" });
  await eventually(async () => assert.equal(await summary.getByRole("listitem").count(), 3));
  await summary.getByRole("img", { name: /^Mean scores of 10\. 1\. m\d+: Impact \d/ }).waitFor();
  const { height } = await summary.boundingBox();
  assert.ok(height < 500, `the summary fits on one screen, but is ${height} px high`);
  await checkBoth(page, "results");
  const text = await page.locator("main").textContent();
  assert.match(text, /Growth Strategist, scoring/, "roles are named");
  assert.doesNotMatch(text, /\bD\d scoring|\bi\d, round/, "no identifiers of agents or debates");

  // The leaderboard built from events must match the ranking of the report.
  const id = page.url().match(/runs\/([^?]+)/)[1];
  const { result } = await (await fetch(`${server.url}/api/results/${id}`)).json();
  const ranking = [...result.ranking.recommended, ...result.ranking.other].map((it) => it.move_id);
  await page.getByRole("tab", { name: "Pipeline" }).click();
  // The status of the run may arrive before its last events.
  await eventually(async () => {
    const shown = await page.locator("[data-move]").evaluateAll((all) => all.map((it) => it.dataset.move));
    assert.deepEqual(shown, ranking, "the leaderboard matches the ranking");
  });
  await shoot(page, "pipeline-done");
  await close();
});

test("a running run is displayed live", { timeout: 1_800_000 }, async (t) => {
  const server = await startServer({ args: SLOW });
  t.after(() => server.stop());
  const { page, close } = await openPage(browser, server);
  const id = await startRun(server, { ticker: "LIVE", rounds: 50 });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();
  // Polling the run must not remove edges from the graph.
  await page.evaluate(() => {
    globalThis.lost = 0;
    const watch = new MutationObserver((all) => all.forEach((it) => (globalThis.lost += it.removedNodes.length)));
    watch.observe(document.querySelector(".react-flow__edges"), { childList: true, subtree: true });
  });
  for (let asked = 0; asked < 3; asked += 1) await page.waitForResponse((it) => it.url().endsWith(`/api/runs/${id}`));
  assert.equal(await page.evaluate(() => globalThis.lost), 0);
  await page.locator(".flow-edge-live path.react-flow__edge-path").first().waitFor({ state: "attached" });
  const idle = page.getByRole("button", { name: /^m15 .*: debate idle/ });
  assert.match(await idle.getAttribute("aria-label"), /^m15 \w+/, "a title is shown as soon as the move is proposed");
  await checkBoth(page, "live");
  await page.getByRole("tab", { name: "Timeline" }).click();
  await page.getByRole("row", { name: /^m1 .*, running/ }).waitFor();
  await page.getByText("Tokens and cost by agent are available when the run is complete.").waitFor();
  await checkPage(page, "live timeline");
  await page.getByRole("tab", { name: "Pipeline" }).click();

  await page
    .getByRole("button", { name: /^m\d+ .*: debate running/ })
    .last()
    .click();
  await page.getByRole("heading", { name: /Critic against Growth Strategist/ }).waitFor();
  const opened = await page.getByRole("region", { name: /^Round \d+$/ }).count();
  await page.waitForFunction((n) => document.querySelectorAll('section[aria-label^="Round "]').length > n, opened);
  await page.getByRole("img", { name: /^Graph of the debate, current step: (critic|board)/ }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Fork/ }).count(), 0, "an active run cannot be forked");
  await checkPage(page, "live debate");
  await shoot(page, "debate-live");

  await page.getByRole("button", { name: "Follow the debate" }).click();
  const rounds = await page.getByRole("region", { name: /^Round \d+$/ }).count();
  const latest = page.getByRole("region", { name: `Round ${rounds + 2}`, exact: true });
  await latest.waitFor();
  await page.waitForFunction(() => document.documentElement.scrollHeight - window.innerHeight - window.scrollY < 120);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("[data-status=cancelled]").waitFor();
  await close();
});

test("findings are available as soon as they are written", { timeout: 1_800_000 }, async (t) => {
  const server = await startServer({ args: SLOW });
  t.after(() => server.stop());
  const { page, close } = await openPage(browser, server);
  const id = await startRun(server, { ticker: "EARLY", rounds: 50, concurrency: 1 });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("tab", { name: "Documents" }).click();
  await page.getByRole("button", { name: "Findings F1" }).click();
  await page.getByText("F1-01").first().waitFor();
  await page.reload();
  await page.getByText("F1-01").first().waitFor();

  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /^Trend inference .*: agent done/ }).click();
  await page.getByRole("region", { name: "F2.md" }).getByText("F2-01").first().waitFor();
  await page
    .getByRole("button", { name: /^m\d+ .*: debate running/ })
    .last()
    .click();
  const opened = page.getByRole("region", { name: "Round 1", exact: true });
  await opened
    .getByRole("button", { name: /^Finding F\d-\d+$/ })
    .first()
    .click();
  await page
    .getByRole("dialog", { name: /^Finding F/ })
    .getByText(/strength \d/)
    .waitFor();
  assert.equal(await page.locator("[data-status=running]").count(), 1, "the run is still active");
  await close();
});

test("zoom from layers to agents, a debate and its citations", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  const { runs } = await (await fetch(`${server.url}/api/runs`)).json();
  const done = runs.find((it) => it.status === "complete");
  await page.goto(`${server.url}/runs/${done.id}?view=pipeline`);
  await page.getByRole("button", { name: /^Ranking/ }).waitFor();
  await page.setViewportSize({ width: 960, height: 800 });
  await page.waitForFunction(() => {
    const right = (it) => document.querySelector(it).getBoundingClientRect().right;
    return right(".react-flow__node[data-id=rank]") <= right(".react-flow");
  });
  await page.setViewportSize({ width: 1024, height: 768 });
  await page.waitForFunction(() => {
    const title = document.querySelector('button[aria-label^="m1 "][aria-label*=": debate"] .col-span-3');
    if (!title) return false;
    const scale = title.getBoundingClientRect().width / title.offsetWidth;
    return Number.parseFloat(getComputedStyle(title).fontSize) * scale >= 9.5;
  });
  await shoot(page, "pipeline-1024");
  await page.setViewportSize({ width: 1280, height: 800 });

  // A link to a layer zooms in on the layer.
  const findings = page.locator('.react-flow__node[data-id="1"]');
  const { width: overview } = await findings.boundingBox();
  await page.goto(`${server.url}/runs/${done.id}?view=pipeline&at=1`);
  await page.getByText("Two agents derive numbered findings").waitFor();
  await eventually(async () => {
    const { width } = await findings.boundingBox();
    assert.ok(width > 1.1 * overview, `the layer is ${width} px wide, and ${overview} px in the overview`);
  });
  await page.getByRole("button", { name: "Agents", exact: true }).click();

  await page.getByRole("button", { name: "Layers" }).click();
  await page.waitForFunction(() => document.querySelectorAll('button[aria-label*=": agent "]').length === 0);
  await shoot(page, "zoom-layers");
  await page.getByRole("button", { name: /^Findings .*: layer done/ }).click();
  await page.getByText("Two agents derive numbered findings").waitFor();
  await page.getByRole("button", { name: /^Trend inference .*: agent done/ }).waitFor();
  await checkBoth(page, "zoom-layer");
  await page.getByRole("button", { name: /^Trend inference .*: agent done/ }).click();
  await page.getByText("F2.md").first().waitFor();
  await shoot(page, "zoom-agent");
  await page.getByText("Model calls: prompt, answer, tokens and time").click();
  const call = page.getByRole("region", { name: "Call 1", exact: true });
  await call.getByText("scripted/board").waitFor();
  await call.getByText(/^[\d,]+ in, [\d,]+ out$/).waitFor();
  await call.getByText(/^Prompt/).click();
  await call.getByRole("region", { name: "Prompt of call 1" }).getByText("Instructions:").waitFor();
  await checkBoth(page, "agent-calls");
  await page.getByRole("button", { name: "Agents", exact: true }).click();
  await page.getByRole("button", { name: /^m1 .*: debate/ }).click();

  await page.getByRole("region", { name: "Round 10" }).waitFor();
  for (const log of [1, 2, 3]) {
    const column = (round) =>
      page.locator(`section[aria-label="Round ${round}"] > div:last-child > div:last-child > div:nth-child(${log})`);
    await eventually(async () => {
      assert.equal(await column(1).getByRole("article").count(), 1, "one answer in each conversation");
      assert.equal(await column(2).getByRole("article").count(), 2, "the critic and one answer in each conversation");
    });
  }
  const opening = page.getByRole("region", { name: "Round 1", exact: true }).getByText("Critic to all agents");
  await eventually(async () => assert.equal(await opening.count(), 1, "the opening is shown once"));
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
  // Flags are shown at the turn.
  await page.getByText("this finding does not exist").first().waitFor();

  await page.getByRole("tab", { name: "Timeline" }).click();
  const rows = page.getByRole("row");
  await eventually(async () => assert.equal(await rows.count(), 25, "nine agents and fifteen debates"));
  await page.getByRole("row", { name: /^m15 .*\d s \d{2,3},\d{3} \$0\.00$/ }).waitFor();
  await checkBoth(page, "timeline");

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
