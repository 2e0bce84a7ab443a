/** Starts and stops a server program. */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/**
 * Starts a server that writes `Serving at <URL>.` to stderr. The system chooses the port, so that no other program can
 * take it.
 */
export async function startProgram(command, args, options) {
  const child = spawn(command, [...args, "--address", "127.0.0.1:0"], {
    ...options,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  let stderr = "";
  const url = await new Promise((resolve, reject) => {
    const fail = (reason) => reject(new Error(`${command} did not start: ${reason}\n${stderr}`));
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => fail(`it ended with ${code}`));
    createInterface(child.stderr).on("line", (line) => {
      stderr += `${line}\n`;
      const found = /^Serving at (http:\/\/\S+)\.\s/.exec(line);
      if (found) resolve(found[1]);
    });
  });
  return {
    url,
    async stop(signal) {
      child.kill(signal);
      await exited;
    },
  };
}
