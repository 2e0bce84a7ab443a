/** The page of `agent-sandbox serve`: a job with two attempts, and the gauges of the pool. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { PHONE, checkBoth, launchBrowser, openPage } from "../browser.mjs";

let server, browser;
before(async () => {
  server = await startServer();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Starts `SANDBOX_BIN` (default `agent-sandbox`) with an empty directory and the scripted model. */
async function startServer() {
  const folder = await mkdtemp(join(tmpdir(), "sandbox-e2e-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ["serve", "--address", `127.0.0.1:${port}`, "--runs", join(folder, "runs"), "--provider", "scripted"];
  const child = spawn(process.env.SANDBOX_BIN ?? "agent-sandbox", args, { cwd: folder, stdio: "ignore" });
  const stop = async () => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await gone;
    await rm(folder, { recursive: true, force: true });
  };
  for (let attempt = 0; attempt < 600; attempt += 1) {
    const ready = await fetch(`${url}/health`).catch(() => null);
    if (ready?.ok) return { url, stop };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await stop();
  throw new Error("the server did not start");
}

async function freePort() {
  const probe = net.createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

test("a failed attempt is criticized, and the next one is shown as changes", { timeout: 180_000 }, async () => {
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
  assert.ok((await changes.locator("[data-change=added]").count()) > 0);
  assert.ok((await changes.locator("[data-change=removed]").count()) > 0);
  assert.ok((await changes.locator("[data-change=same]").count()) > 0);
  await checkBoth(page, "sandbox-job");

  await page.reload();
  await attempt(2).waitFor();
  await page.getByRole("link", { name: "All jobs" }).click();
  await page.getByRole("link", { name: /^Solved 2 attempts/ }).waitFor();
  await page.getByRole("meter", { name: "Sandboxes: in use" }).waitFor();
  await checkBoth(page, "sandbox-home");
  await close();
});

test("the page fits on a phone, and an unknown job is reported", { timeout: 180_000 }, async () => {
  const { page, close } = await openPage(browser, server, { ...PHONE, expected: [/status of 404/] });
  await page.goto(server.url);
  await page.getByRole("link", { name: /^Solved/ }).click();
  await page.getByRole("region", { name: "Attempt 2", exact: true }).waitFor();
  await checkBoth(page, "sandbox-phone");
  await page.goto(`${server.url}/?job=nothing`);
  await page.getByRole("alert").getByText("Could not load the job").waitFor();
  await close();
});
