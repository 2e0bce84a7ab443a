//! Runs the Python programs of the documents, with LangGraph and against a server.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::{
    documents::{Block, all_blocks},
    peers::{A2A, LANGGRAPH, Peer},
    reference::Reference,
};

/// Text that identifies each program, and statements that check its result.
const CHECKS: [(&str, &str); 5] = [
    (
        "add_conditional_edges(",
        "assert essay['drafts'] == ['Draft 1 on Rust', 'Draft 2 on Rust', 'Draft 3 on Rust'], essay",
    ),
    ("def keep_longest(", "assert keep_longest('a', 'bc') == keep_longest('bc', 'a') == 'bc'"),
    (
        "client = get_client(",
        "state = await client.threads.get_state(thread['thread_id'])\n\
         assert state['values']['messages'][-1]['content'] == 'you said Hello', state",
    ),
    (
        "graph = RemoteGraph(",
        "assert answer['messages'][-1]['content'] == 'you said Hello', answer",
    ),
    (A2A_PROGRAM, "assert answer == 'you said Hello', answer"),
];

/// Text that identifies the program that uses the client of the Agent2Agent protocol.
const A2A_PROGRAM: &str = "from a2a.client import";

fn programs() -> Vec<Block> {
    let mut programs = all_blocks();
    programs.retain(|it| it.language() == "python");
    assert!(
        programs.len() >= CHECKS.len(),
        "the documents contain only {} programs",
        programs.len()
    );
    programs
}

fn has_python() -> bool {
    let version = Command::new("python3").arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}

/// Runs (`run`) or compiles (`compile`) a program.
fn python(mode: &str, code: &str, packages: Option<&Path>) -> Output {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("run_block.py"), mode]).env("NO_PROXY", "127.0.0.1");
    if let Some(packages) = packages {
        command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut python = command.spawn().unwrap();
    python.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    python.wait_with_output().unwrap()
}

#[track_caller]
fn assert_success(program: &Block, output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{stdout}{stderr}", program.place());
}

#[test]
fn python_programs_have_a_valid_syntax() {
    if !has_python() {
        return test_support::report_skipped("python3 is not installed");
    }
    for program in programs() {
        assert_success(&program, &python("compile", &program.code, None));
    }
}

#[test]
fn python_programs_run() {
    run(LANGGRAPH, "python", |program| !program.code.contains(A2A_PROGRAM));
}

#[test]
fn programs_with_the_agent2agent_client_run() {
    run(A2A, "", |program| program.code.contains(A2A_PROGRAM));
}

/// Runs the selected programs with packages of `peer`. `packages` is their directory, relative to that of the peer.
fn run(peer: Peer, packages: &str, is_selected: fn(&Block) -> bool) {
    let Some(packages) = peer.find().map(|it| it.join(packages)) else { return };
    let Some(server) = Reference::start(peer) else { return };
    for program in programs().into_iter().filter(is_selected) {
        let check = CHECKS.iter().find(|it| program.code.contains(it.0));
        let Some((_, check)) = check else {
            panic!("add a check of the Python program in {} to CHECKS", program.place())
        };
        let code = server.replace_address(&format!("{}\n{check}\n", program.code));
        assert_success(&program, &python("run", &code, Some(&packages)));
    }
}
