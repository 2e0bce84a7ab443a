/** The example server of the studio, behind a proxy that can be disconnected. */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { openProxy } from "../proxy.mjs";

/** Starts `STUDIO_BIN`, which prints the URL of the studio. */
export async function startStudio() {
  const command = process.env.STUDIO_BIN ?? "studio";
  const child = spawn(command, ["--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${command} ended with ${code}`)));
    createInterface(child.stdout).once("line", (line) => resolve(new URL(line.replace("studio: ", ""))));
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

/** Starts a run over HTTP and waits for its end. Returns the thread. */
export async function finishedRun(server, graph, input) {
  const thread = await post(server, "/threads", { graph_id: graph });
  await post(server, `/threads/${thread.thread_id}/runs/wait`, { assistant_id: graph, input });
  return thread.thread_id;
}

async function post(server, path, body) {
  const answer = await fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
