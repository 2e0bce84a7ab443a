/** The report as a page: in both colour schemes, at phone width and on paper. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE, launchBrowser, openPage, startRun, untilRun } from "./browser.mjs";
import { startServer } from "./server.mjs";

let server, browser, html;
before(async () => {
  server = await startServer();
  browser = await launchBrowser();
  const id = await startRun(server, { ticker: "PAGE", rounds: 2 });
  await untilRun(server, id, "complete");
  html = await (await fetch(`${server.url}/api/runs/${id}/files/report.html`)).text();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens the report as a page of the server, which itself only offers it as a download. */
async function openReport(options) {
  const opened = await openPage(browser, server, options);
  await opened.page.route("**/report", (it) => it.fulfill({ contentType: "text/html; charset=utf-8", body: html }));
  await opened.page.goto(`${server.url}/report`);
  return opened;
}

test("the report is readable on a screen and on a phone, light and dark", { timeout: 1_800_000 }, async () => {
  const backgrounds = new Set();
  for (const size of [DESKTOP, PHONE]) {
    for (const colorScheme of ["light", "dark"]) {
      const { page, close } = await openReport({ ...size, colorScheme });
      const state = `${size.viewport.width} px, ${colorScheme}`;
      const cards = page.locator(".card");
      assert.equal(await cards.count(), 3, state);
      for (const label of ["Decision", "Cost", "First step", "Unanswered objection", "Stop if", "Measure of success"]) {
        assert.ok(await cards.first().getByText(label, { exact: true }).isVisible(), `${state}: ${label}`);
      }
      const overflow = await page.evaluate(() => {
        const boxes = [document.documentElement, ...document.querySelectorAll(".wide")];
        return boxes.map((it) => it.scrollWidth - it.clientWidth);
      });
      assert.ok(overflow[0] <= 0, `${state}: the page overflows by ${overflow[0]} px`);
      // On a phone, no column is outside the screen.
      if (size === PHONE) assert.ok(Math.max(...overflow) <= 1, `${state}: a table overflows: ${overflow}`);
      backgrounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      await close();
    }
  }
  assert.equal(backgrounds.size, 2, `one background for each colour scheme: ${[...backgrounds]}`);
});

test("the report can be printed", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openReport(DESKTOP);
  await page.emulateMedia({ media: "print" });
  assert.ok(await page.getByRole("navigation", { name: "Contents" }).isVisible());
  assert.ok(await page.locator(".card").last().getByText("Measure of success", { exact: true }).isVisible());
  assert.equal(await page.locator("details:visible").count(), 0, "transcripts are not printed");
  // On A4 with the margins of the report, everything up to the chart of the company fits on the first page.
  const [width, height] = [190, 277].map((millimetres) => (millimetres * 96) / 25.4);
  await page.setViewportSize({ width: Math.floor(width), height: Math.floor(height) });
  const chart = await page.locator("figure").first().boundingBox();
  assert.ok(chart.y + chart.height <= height, `the first page is ${chart.y + chart.height} px high, of ${height}`);
  const pdf = (await page.pdf({ format: "A4" })).toString("latin1");
  const pages = pdf.match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  // Each of the four parts after the first page starts on a new page.
  assert.ok(pages >= 5 && pages < 60, `${pages} pages`);
  await close();
});
