/** The page of `agent-sandbox serve`: a job with two attempts, and the gauges of the pool. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { PHONE, checkBoth, launchBrowser, openPage } from "../browser.mjs";
import { startProgram } from "../program.mjs";

let server, browser;
before(async () => {
  server = await startServer();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/**
 * Starts `SANDBOX_BIN` (default `agent-sandbox`) with an empty directory and the scripted model. The timeout of
 * programs is raised, because programs on a busy machine can exceed the default.
 */
async function startServer() {
  const folder = await mkdtemp(join(tmpdir(), "sandbox-e2e-"));
  const args = ["serve", "--runs", join(folder, "runs"), "--provider", "scripted", "--timeout", "60"];
  const program = await startProgram(process.env.SANDBOX_BIN ?? "agent-sandbox", args, { cwd: folder });
  return {
    url: program.url,
    async stop() {
      await program.stop("SIGTERM");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

test("a failed attempt is criticised, and the next one is shown as changes", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server);
  await page.goto(server.url);
  await page.getByRole("button", { name: "Read data from users.json and print usernames" }).click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL(/\?job=/);
  await page.getByText("Solved", { exact: true }).waitFor();
  const attempt = (number) => page.getByRole("region", { name: `Attempt ${number}`, exact: true });
  await attempt(1)
    .getByRole("heading", { name: /^Critique/ })
    .waitFor();
  await attempt(1).getByText("FileNotFoundError").first().waitFor();
  await attempt(2).getByRole("region", { name: "Output of attempt 2" }).getByText("alice").waitFor();
  const changes = attempt(2).getByRole("region", { name: "Program of attempt 2" });
  for (const change of ["added", "removed", "same"]) {
    await changes.locator(`[data-change=${change}]`).first().waitFor({ state: "attached" });
  }
  await checkBoth(page, "sandbox-job");

  await page.reload();
  await attempt(2).waitFor();
  await page.getByRole("link", { name: "All jobs" }).click();
  await page.getByRole("link", { name: /^Solved 2 attempts/ }).waitFor();
  await page.getByRole("meter", { name: "Sandboxes: in use" }).waitFor();
  await checkBoth(page, "sandbox-home");
  await close();
});

test("the page fits on a phone, and an unknown job is reported", { timeout: 1_800_000 }, async () => {
  const { page, close } = await openPage(browser, server, { ...PHONE, expected: [/status of 404/] });
  await page.goto(server.url);
  await page.getByRole("link", { name: /^Solved/ }).click();
  await page.getByRole("region", { name: "Attempt 2", exact: true }).waitFor();
  await checkBoth(page, "sandbox-phone");
  await page.goto(`${server.url}/?job=nothing`);
  await page.getByRole("alert").getByText("Could not load the job").waitFor();
  await close();
});
