/** The server under test, behind a proxy that can be disconnected. */

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { openProxy } from "./proxy.mjs";

/** Makes the model slow enough that a run of many rounds can be observed on any machine. */
export const SLOW = ["--answer-ms", "2000"];

/**
 * Uses the server at `SERVER`, or starts `CONSULTING_BIN` (default `consulting`) with an empty runs directory. All
 * traffic goes through a proxy, so that a test can disconnect without stopping the server.
 */
export async function startServer({ args = [], env = {} } = {}) {
  const given = args.length === 0 && Object.keys(env).length === 0 ? process.env.SERVER : undefined;
  const own = given ? null : await launch(args, env);
  const proxy = await openProxy(new URL(given ?? own.url));
  return {
    url: proxy.url,
    disconnect: proxy.disconnect,
    reconnect: proxy.reconnect,
    async stop() {
      await proxy.close();
      await own?.stop();
    },
  };
}

async function launch(args, env) {
  const folder = await mkdtemp(join(tmpdir(), "consulting-e2e-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const command = process.env.CONSULTING_BIN ?? "consulting";
  const all = [
    "serve",
    "--address",
    `127.0.0.1:${port}`,
    "--runs",
    join(folder, "runs"),
    "--isolation",
    "off",
    "--rate",
    "100000",
    "--provider",
    "scripted",
    // The synthetic data depends on the date: with another one, flags might not appear where a test expects them.
    "--data",
    "synthetic",
    "--as-of",
    "2026-11-15",
    ...args,
  ];
  const child = spawn(command, all, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.on("data", (it) => (stderr += it));
  child.on("error", (error) => (stderr += error.message));
  for (let attempt = 0; ; attempt += 1) {
    const ready = await fetch(`${url}/ready`).then(
      (it) => it.ok,
      () => false,
    );
    if (ready) break;
    if (attempt > 600 || child.exitCode !== null) throw new Error(`${command} did not start: ${stderr}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return {
    url,
    async stop() {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort() {
  const probe = net.createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
