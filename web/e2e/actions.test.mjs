/** Tests that run only in the nightly build: further reviews, cancel, resume, and errors of the server. */

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
  // If the run ends before the page detects that it was active, the page keeps showing the results.
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
