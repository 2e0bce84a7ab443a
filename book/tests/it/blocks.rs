//! Checks of code blocks: which programs do not run, and the syntax of other languages.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::documents::all_blocks;

/// Rust programs that are compiled but not run, with the document, the heading and the reason.
const NOT_RUN: [(&str, &str, &str); 2] = [
    (
        "book/chapters/agents.md",
        "Models",
        "it reads from the terminal and calls a provider with an API key",
    ),
    (
        "book/chapters/mcp.md",
        "Servers as child processes",
        "its server comes from PyPI; `graph-agents/tests/mcp/time_server.rs` runs the same server",
    ),
];

#[test]
fn every_rust_block_runs_unless_there_is_a_reason() {
    let mut expected = NOT_RUN.to_vec();
    for block in all_blocks().iter().filter(|it| it.info.contains("no_run")) {
        let place = (&*block.document, &*block.heading);
        let entry = expected.iter().position(|it| (it.0, it.1) == place);
        let entry = entry.unwrap_or_else(|| {
            panic!(
                "the program in {} does not run: remove `no_run` and add hidden lines, or add a reason to NOT_RUN",
                block.place()
            )
        });
        expected.remove(entry);
    }
    assert!(expected.is_empty(), "remove these entries of NOT_RUN: {expected:#?}");
}

#[test]
fn json_blocks_are_valid() {
    for block in all_blocks().iter().filter(|it| it.language() == "json") {
        let parsed = serde_json::from_str::<serde_json::Value>(&block.code);
        assert!(parsed.is_ok(), "{}: {parsed:?}", block.place());
    }
}

#[test]
fn shell_blocks_have_a_valid_syntax() {
    for block in all_blocks().iter().filter(|it| it.language() == "sh") {
        let mut shell = Command::new("sh")
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(block.code.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", block.place());
    }
}

#[test]
fn every_block_has_a_language_that_the_tests_know() {
    let known = ["js", "json", "mermaid", "python", "rust", "sh", "sql", "text", "toml"];
    for block in all_blocks().iter().filter(|it| it.document.starts_with("book/chapters/")) {
        assert!(known.contains(&block.language()), "{}: `{}`", block.place(), block.info);
    }
}
