/** The server under test, behind a proxy that can be disconnected. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { startProgram } from "./program.mjs";
import { openProxy } from "./proxy.mjs";

/** Makes the model slow enough that a run of many rounds can be observed on any machine. */
export const SLOW = ["--answer-ms", "4000"];

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
  const all = [
    "serve",
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
  const options = { cwd: folder, env: { ...process.env, ...env } };
  const program = await startProgram(process.env.CONSULTING_BIN ?? "consulting", all, options);
  return {
    url: program.url,
    async stop() {
      await program.stop("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    },
  };
}
