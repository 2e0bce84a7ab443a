/**
 * A page that shows what a `useStream` hook returns. The query selects the hook, the server and the graph, and contains
 * the id of the thread, so that a reload shows the same thread.
 */

import { useStream as useSdkStream } from "@langchain/langgraph-sdk/react";
import { useStream as useReactStream } from "@langchain/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const server = { apiUrl: query.get("api"), assistantId: query.get("graph") };

function useThread() {
  const [threadId, setThreadId] = useState(query.get("thread"));
  const onThreadId = (id) => {
    query.set("thread", id);
    history.replaceState(null, "", `?${query}`);
    setThreadId(id);
  };
  return { threadId, onThreadId };
}

/** The hook of `@langchain/langgraph-sdk`. */
function SdkPage() {
  const stream = useSdkStream({ ...server, ...useThread(), reconnectOnMount: true, fetchStateHistory: true });
  const calls = stream.toolCalls.map(({ call, result }) => [call.name, call.args, result?.content]);
  const resume = (answer) => stream.submit(undefined, { command: { resume: answer } });
  return <View stream={stream} calls={calls} resume={resume} />;
}

/** A WebSocket that sends the subscription to the values after the end of the run. */
class LateWebSocket extends WebSocket {
  #ended = new Promise((resolve) => {
    this.addEventListener("message", ({ data }) => {
      if (data.includes('"completed"')) resolve();
    });
  });

  send(command) {
    if (!command.includes('"values"')) return super.send(command);
    // The client first stops reading, because the run has ended.
    this.#ended.then(() => setTimeout(() => super.send(command), 100));
  }
}

/** The hook of `@langchain/react`. */
function ReactPage() {
  const Socket = query.has("late") ? LateWebSocket : WebSocket;
  const stream = useReactStream({
    ...server,
    ...useThread(),
    transport: query.get("transport"),
    webSocketFactory: (url) => new Socket(url),
  });
  const calls = stream.toolCalls.map(({ name, args, output }) => [name, args, output]);
  // Without an id, the client rejects answers until the question has arrived over the stream too.
  const resume = (answer) => stream.respond(answer, { interruptId: stream.interrupt.id });
  return <View stream={stream} calls={calls} resume={resume} />;
}

const textOf = ({ content }) => (typeof content === "string" ? content : content.map((it) => it.text ?? "").join(""));

function View({ stream, calls, resume }) {
  const [draft, setDraft] = useState("");
  return (
    <main>
      <label>
        JSON <textarea value={draft} onChange={(event) => setDraft(event.target.value)} />
      </label>
      <button onClick={() => stream.submit(JSON.parse(draft))}>Submit</button>
      <button onClick={() => resume(JSON.parse(draft))}>Resume</button>
      <button onClick={() => stream.stop()}>Stop</button>
      <output aria-label="Status">{stream.isLoading ? "running" : "idle"}</output>
      {stream.error && <p role="alert">{String(stream.error)}</p>}
      {stream.interrupt && <pre aria-label="Interrupt">{JSON.stringify(stream.interrupt.value)}</pre>}
      <pre aria-label="Values">{JSON.stringify(stream.values)}</pre>
      <pre aria-label="Messages">{JSON.stringify(stream.messages.map((it) => [it.type, textOf(it)]))}</pre>
      <pre aria-label="Tool calls">{JSON.stringify(calls)}</pre>
    </main>
  );
}

createRoot(document.body).render(query.get("hook") === "sdk" ? <SdkPage /> : <ReactPage />);
