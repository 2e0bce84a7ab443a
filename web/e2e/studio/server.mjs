/** The example server of the studio. */

import { startExample } from "../example.mjs";

/** Starts `STUDIO_BIN`. */
export const startStudio = () => startExample(process.env.STUDIO_BIN ?? "studio");

/** Starts a run over HTTP and waits for its end. Returns the thread. */
export async function finishedRun(server, graph, input) {
  const thread = await newThread(server, graph);
  await post(server, `/threads/${thread.thread_id}/runs/wait`, { assistant_id: graph, input });
  return thread.thread_id;
}

/** Continues a thread over HTTP without answering its questions, and waits for the end of the run. */
export const continueRun = (server, graph, thread) =>
  post(server, `/threads/${thread}/runs/wait`, { assistant_id: graph, input: null });

/** Creates a thread over HTTP. */
export const newThread = (server, graph, fields) => post(server, "/threads", { graph_id: graph, ...fields });

async function post(server, path, body) {
  const answer = await fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
