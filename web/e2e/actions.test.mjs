/** User actions: review, fork, compare, cancel, resume; and failures. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { checkBoth, checkPage, eventually, launchBrowser, openPage, shoot, startRun, untilRun } from "./browser.mjs";
import { SLOW, startServer } from "./server.mjs";

let server, browser;
before(async () => {
  server = await startServer();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
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

test("a review adds a move and edits steps, and survives a reload", { timeout: 1_800_000 }, async () => {
  const id = await startRun(server, { ticker: "MORE", rounds: 1, review: true });
  await untilRun(server, id, "waiting");
  const { page, close } = await openPage(browser, server, { expected: [/status of 4(09|22)/] });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: "Drop m2", exact: true }).click();
  await page.getByRole("button", { name: "Edit m1", exact: true }).click();
  await page.getByLabel("Action of step 1").fill("Ask the treasurer first");
  await page.getByRole("button", { name: "Remove step 2" }).click();
  await page.getByRole("button", { name: "Add step" }).click();
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("tab", { name: "Review" }).click();
  await page.reload();
  await page.getByText("14 of 15 moves will be debated").waitFor();
  await page.getByText("edited", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Add move" }).click();
  const form = page.getByRole("form", { name: "Edit m16" });
  await page.getByRole("button", { name: "Debate 15 moves" }).click();
  await form.getByText("m16 is missing a title and a thesis.").waitFor();
  await page.waitForFunction(() => document.activeElement?.textContent === "m16 is missing a title and a thesis.");
  await checkBoth(page, "review-add");
  await form.getByLabel("Title").fill("Buy the only supplier of glass");
  await form.getByLabel("Thesis").fill("Control of the glass supply sets the price [F1-01].");
  await form.getByLabel("Risk").selectOption("high");
  await form.getByLabel("Owner of step 1").fill("The board");
  await page.getByRole("button", { name: "Debate 15 moves" }).click();
  await form.getByText("m16 is missing the action of step 1.").waitFor();
  await form.getByLabel("Action of step 1").fill("Make an offer");
  await page.getByRole("button", { name: "Debate 15 moves" }).click();
  await untilRun(server, id, "complete");

  await page.goto(`${server.url}/runs/${id}?view=documents&file=m16.md`);
  await page.getByText("Make an offer").waitFor();
  await page.getByRole("button", { name: "m1 ·" }).click();
  await page.getByText("Ask the treasurer first").waitFor();
  await page.getByRole("tab", { name: "Pipeline" }).click();
  await page.getByRole("button", { name: /^Debates 15 of 15 debated/ }).waitFor();
  await eventually(async () => {
    const board = await page.locator("[data-move]").evaluateAll((all) => all.map((it) => it.dataset.move));
    assert.ok(board.includes("m16") && !board.includes("m2"), "the leaderboard lists the debated moves");
  });
  await close();
});

test("a rejected review shows the server's message and can be resubmitted", { timeout: 1_800_000 }, async () => {
  const id = await startRun(server, { ticker: "TWOS", rounds: 1, review: true });
  await untilRun(server, id, "waiting");
  const { page, close } = await openPage(browser, server, { expected: [/status of 422/] });
  const refusal = { error: { code: "invalid", message: "m3 appears twice; each move needs its own id" } };
  await page.route("**/resume", (it) => it.fulfill({ status: 422, json: refusal }));
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: "Debate 15 moves" }).click();
  await page.getByRole("alert").getByText("m3 appears twice").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.getByRole("button", { name: "Debate 15 moves" }).click();
  await untilRun(server, id, "complete");
  await close();
});

test("a debate is forked from a round and compared with the original", { timeout: 1_800_000 }, async () => {
  const id = await startRun(server, { ticker: "FORK", rounds: 2 });
  await untilRun(server, id, "complete");
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
    .getByText(/the budget does not allow the call/)
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

test("a cancelled run keeps its files", { timeout: 1_800_000 }, async (t) => {
  const server = await startServer({ args: SLOW });
  t.after(() => server.stop());
  const id = await startRun(server, { ticker: "STOP", rounds: 50, concurrency: 1 });
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("button", { name: /^m1 .*: debate running/ }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("[data-status=cancelled]").waitFor();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  const running = page.getByRole("button", { name: /: (debate|layer|agent) running/ });
  await eventually(async () => assert.equal(await running.count(), 0, "nothing is running"));
  await checkPage(page, "cancelled");
  await shoot(page, "cancelled");
  await page.getByRole("button", { name: "Downloads" }).click();
  await page.getByRole("dialog", { name: "Downloads" }).getByText("events.jsonl").waitFor();
  assert.equal(await page.getByText("trace.json").count(), 0, "an incomplete run has no trace");
  await close();
});

test("a run cut short by its budget resumes with a larger one", { timeout: 1_800_000 }, async () => {
  const id = await startRun(server, { ticker: "CUTS", max_tokens: 200_000 });
  await untilRun(server, id, "complete");
  const { page, close } = await openPage(browser, server);
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("heading", { name: "Not scored" }).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  const dialog = page.getByRole("dialog", { name: "Resume the run" });
  await dialog.getByLabel("Token limit").fill("9000000");
  await checkBoth(page, "resume-complete");
  await dialog.getByRole("button", { name: "Resume" }).click();
  // A page that does not see the run active keeps showing its results.
  const view = page.getByText("The run is complete: view the results");
  const results = page.getByRole("heading", { name: "Other moves (12)" });
  await view.or(results).first().waitFor();
  if (await view.isVisible()) await view.click();
  await results.waitFor();
  const absent = [page.getByRole("heading", { name: "Not scored" }), page.getByRole("button", { name: "Resume" })];
  await eventually(async () => {
    for (const it of absent) assert.equal(await it.count(), 0, "there is nothing to resume");
  });
  await close();
});

test("errors of the server are displayed", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { expected: [/status of 4(04|22)/] });
  await page.goto(server.url);
  await page.getByLabel("Ticker").fill("!!");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page
    .getByRole("alert")
    .getByText(/invalid character/)
    .waitFor();

  await page.getByText("Options").click();
  await page.getByLabel("Rounds").fill("99");
  await page.getByText("Options").click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForFunction(() => document.activeElement?.labels?.[0]?.textContent === "Rounds");

  await page.goto(`${server.url}/runs/nothing-here`);
  await page.getByRole("alert").getByText("Run not found").waitFor();
  await checkBoth(page, "refused");
  await page.goto(`${server.url}/nowhere`);
  await page.getByRole("alert").getByText("Page not found").waitFor();
  await close();
});

test("stream and rendering errors are displayed", { timeout: 1_800_000 }, async () => {
  const id = await startRun(server, { ticker: "ODDS", rounds: 1 });
  await untilRun(server, id, "complete");
  const { page, close } = await openPage(browser, server, { expected: [/status of 403/, /undefined|null/] });
  const refusal = { error: { code: "forbidden", message: "streams are closed to you" } };
  await page.route("**/api/stream/**", (it) => it.fulfill({ status: 403, json: refusal }));
  await page.goto(`${server.url}/runs/${id}?view=pipeline`);
  await page.getByRole("alert").getByText("streams are closed to you").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("button", { name: /^Debates 15 of 15 debated/ }).waitFor();
  await eventually(async () => assert.equal(await page.getByRole("alert").count(), 0, "events are streamed again"));

  await page.route(`**/api/runs/${id}`, async (it) => {
    const run = await (await it.fetch()).json();
    await it.fulfill({ json: { ...run, config: null } });
  });
  await page.goto(`${server.url}/runs/${id}`);
  await page.getByRole("alert").getByText("This page could not be displayed").waitFor();
  await page.getByRole("link", { name: "Runs" }).click();
  await page.getByLabel("Ticker").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await close();
});
