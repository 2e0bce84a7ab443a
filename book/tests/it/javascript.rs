//! Runs the JavaScript programs of the documents, with their packages and against a server.

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Output},
};

use crate::{
    documents::{Block, all_blocks},
    peers::{LANGGRAPH, Peer, UI_CLIENTS, UI_RUNTIMES},
    reference::Reference,
};

/// Describes how a program is run and checked. Programs without a check are not run.
struct Check {
    /// Text that identifies the program.
    part: &'static str,
    packages: Peer,
    /// Directory of `node_modules`, relative to that of the packages.
    modules: &'static str,
    /// Statements that complete the program and compare `answer` with the expected text.
    rest: &'static str,
}

const CHECKS: [Check; 7] = [
    Check {
        part: "client.runs.stream(thread_id",
        packages: LANGGRAPH,
        modules: "node/node_modules",
        rest: "const answer = (await client.threads.getState(thread_id)).values.messages.at(-1).content;",
    },
    Check {
        part: "useStream({",
        packages: LANGGRAPH,
        modules: "node/node_modules",
        rest: r#"
import React from "react";
import renderer from "react-test-renderer";
let chat;
renderer.create(React.createElement(() => { chat = useChat(); return null; }));
await until(() => chat);
await chat.send("Hello");
const answer = await until(() => chat.stream.messages[1] && !chat.stream.isLoading && chat.stream.messages[1].content);"#,
    },
    Check {
        part: "new HttpAgent(",
        packages: UI_CLIENTS,
        modules: "node_modules",
        rest: "const answer = agent.messages.at(-1).content;",
    },
    Check {
        part: "useLangGraphRuntime({",
        packages: UI_CLIENTS,
        modules: "node_modules",
        rest: r#"
import React from "react";
import renderer from "react-test-renderer";
import { AssistantRuntimeProvider } from "@assistant-ui/core/react";
let runtime;
let isShown = false;
const Chat = () => { isShown = true; return null; };
renderer.create(React.createElement(() => {
  runtime = useChatRuntime();
  return React.createElement(AssistantRuntimeProvider, { runtime }, React.createElement(Chat));
}));
await until(() => isShown);
runtime.thread.append("Hello");
const texts = () => runtime.thread.getState().messages.flatMap((it) => it.content).map((it) => it.text);
const answer = await until(() => !runtime.thread.getState().isRunning && texts()[1]);"#,
    },
    Check {
        part: "new DefaultChatTransport(",
        packages: UI_CLIENTS,
        modules: "node_modules",
        rest: READ_ANSWER,
    },
    Check {
        part: "new LangSmithDeploymentTransport(",
        packages: UI_RUNTIMES,
        modules: "node_modules",
        rest: READ_ANSWER,
    },
    Check {
        part: "createUIMessageStreamResponse(",
        packages: UI_RUNTIMES,
        modules: "node_modules",
        rest: r#"
const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "Hello" }] }];
const body = JSON.stringify({ messages });
const response = await POST(new Request("http://127.0.0.1", { method: "POST", body }));
const lines = (await response.text()).split("\n").filter((it) => it.startsWith("data: {"));
const parts = lines.map((it) => JSON.parse(it.slice(6)));
const answer = parts.filter((it) => it.type === "text-delta").map((it) => it.delta).join("");"#,
    },
];

/// JavaScript that reads an answer through the program's transport for the AI SDK.
const READ_ANSWER: &str = r#"
import { readUIMessageStream } from "ai";
const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "Hello" }] }];
const request = { chatId: "book", messages, trigger: "submit-message" };
const stream = await useAnswers().transport.sendMessages(request);
let message;
for await (const state of readUIMessageStream({ stream })) message = state;
const answer = message.parts.filter((it) => it.type === "text").map((it) => it.text).join("");"#;

/// Programs whose syntax is checked, but which do not run, with the reason.
const NOT_RUN: [(&str, &str); 1] = [(
    "new CopilotRuntime(",
    "it needs a server and a page; graph-server/tests/clients runs it with a server and AG-UI's client",
)];

/// An import of a package that is not installed, and its replacement.
const REPLACED_IMPORT: (&str, &str) =
    (r#"import { useChat } from "@ai-sdk/react";"#, "const useChat = (options) => options;");

/// JavaScript that is prepended to each checked program: a time limit, and the function `until`, which polls a
/// condition.
const SUPPORT: &str = r#"
globalThis.IS_REACT_ACT_ENVIRONMENT = false;
setTimeout(() => { console.error("the program hangs"); process.exit(1); }, 600_000);
async function until(probe) {
  for (;;) {
    const result = probe();
    if (result) return result;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
"#;

/// Compares the answer. The process exits immediately, because clients keep connections open.
const COMPARE: &str = r#"
if (answer !== "you said Hello") { console.error("unexpected answer:", answer); process.exit(1); }
process.exit(0);
"#;

fn programs() -> Vec<Block> {
    let mut programs = all_blocks();
    programs.retain(|it| it.language() == "js");
    assert!(
        programs.len() > CHECKS.len(),
        "the documents contain only {} programs",
        programs.len()
    );
    programs
}

fn has_node() -> bool {
    let version = Command::new("node").arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}

#[track_caller]
fn assert_success(program: &Block, output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{stdout}{stderr}", program.place());
}

#[test]
fn javascript_programs_have_a_valid_syntax() {
    if !has_node() {
        return test_support::report_skipped("node is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program.mjs");
    for program in programs() {
        fs::write(&file, &program.code).unwrap();
        assert_success(&program, &Command::new("node").arg("--check").arg(&file).output().unwrap());
    }
}

#[test]
fn every_javascript_program_runs_or_is_exempt() {
    for program in programs() {
        let n_checks = CHECKS.iter().filter(|it| program.code.contains(it.part)).count();
        let n_reasons = NOT_RUN.iter().filter(|it| program.code.contains(it.0)).count();
        assert_eq!(n_checks + n_reasons, 1, "see CHECKS and NOT_RUN: {}", program.place());
    }
}

/// Runs the programs that need these packages.
fn run(packages: Peer) {
    let Some(dir) = packages.find() else { return };
    let Some(server) = Reference::start(packages) else { return };
    for program in programs() {
        let mut checks = CHECKS.iter().filter(|it| it.packages == packages);
        let Some(check) = checks.find(|it| program.code.contains(it.part)) else { continue };
        let code = program.code.replace(REPLACED_IMPORT.0, REPLACED_IMPORT.1);
        let code = server.replace_address(&format!("{SUPPORT}{code}{}{COMPARE}", check.rest));
        let work = tempfile::tempdir().unwrap();
        // Node.js looks for the packages next to the program.
        symlink(dir.join(check.modules), work.path().join("node_modules")).unwrap();
        fs::write(work.path().join("program.mjs"), code).unwrap();
        let mut node = Command::new("node");
        node.arg("program.mjs").current_dir(work.path()).env("NO_PROXY", "127.0.0.1");
        assert_success(&program, &node.output().unwrap());
    }
}

#[test]
fn programs_with_the_sdk_run() {
    run(LANGGRAPH);
}

#[test]
fn programs_with_user_interfaces_run() {
    run(UI_CLIENTS);
}

#[test]
fn programs_with_the_adapter_of_the_ai_sdk_run() {
    run(UI_RUNTIMES);
}
