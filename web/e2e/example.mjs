/** An example server, behind a proxy that can be disconnected. */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { openProxy } from "./proxy.mjs";

/** Starts an example server on a free port. The first line that it prints ends with its URL. */
export async function startExample(command) {
  const child = spawn(command, ["--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${command} ended with ${code}`)));
    createInterface(child.stdout).once("line", (line) => resolve(new URL(line.split(" ").at(-1))));
  });
  const proxy = await openProxy(url);
  return {
    url: proxy.url,
    disconnect: proxy.disconnect,
    reconnect: proxy.reconnect,
    async stop() {
      await proxy.close();
      child.kill("SIGKILL");
      await exited;
    },
  };
}
