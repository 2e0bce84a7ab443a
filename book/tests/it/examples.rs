//! Checks of the examples: their results, and their lengths in Rust and in Python.

use std::{fs, path::Path};

use crate::documents::{read, root};

/// Maximum number of lines of an example of `graph-agents`, including comments and blank lines.
const AGENT_EXAMPLE_LINES: usize = 60;

/// Maximum number of lines of the chatbot, without comments and blank lines.
const CHATBOT_LINES: usize = 20;

/// Returns the number of lines that are neither blank nor comments.
fn code_lines(path: &Path) -> usize {
    let text = read(path);
    let is_python = path.extension().is_some_and(|it| it == "py");
    let comment = if is_python { "#" } else { "//" };
    // In Python, every second part of the text is a docstring.
    let parts = if is_python { text.split("\"\"\"").step_by(2).collect() } else { vec![&*text] };
    let lines = parts.into_iter().flat_map(str::lines).map(str::trim);
    lines.filter(|it| !it.is_empty() && !it.starts_with(comment)).count()
}

/// Returns the target of a Markdown link such as `[text](target)`.
fn target(link: &str) -> &str {
    link.split_once("](").unwrap().1.trim_end_matches(')')
}

#[test]
fn rust_programs_are_at_most_50_percent_longer_than_python_programs() {
    let directory = root().join("examples/langgraph");
    let readme = read(&directory.join("README.md"));
    let rows = readme.lines().filter(|it| it.contains(".py]"));
    let mut programs = 0;
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, python, rust, python_lines, rust_lines] = cells[..] else { panic!("{row}") };
        let lines = [python, rust].map(|it| code_lines(&directory.join(target(it))));
        let listed = [python_lines, rust_lines].map(|it| it.parse::<usize>().unwrap());
        assert_eq!(lines, listed, "update the numbers in examples/langgraph/README.md: {row}");
        assert!(2 * lines[1] <= 3 * lines[0], "the Rust program is too long: {row}");
        programs += 1;
    }
    let files = fs::read_dir(&directory).unwrap().map(|it| it.unwrap().path());
    let python_files = files.filter(|it| it.extension().is_some_and(|it| it == "py")).count();
    assert_eq!((programs, python_files), (10, 10));
}

#[test]
fn examples_of_agents_are_short() {
    let directory = root().join("graph-agents/examples");
    for example in ["chatbot", "human_review", "supervisor", "rag", "deep_agent"] {
        let text = read(&directory.join(format!("{example}.rs")));
        let lines = text.lines().count();
        assert!(lines <= AGENT_EXAMPLE_LINES, "{example}.rs has {lines} lines");
        assert!(text.contains("    assert"), "{example}.rs does not check its result");
    }
    let lines = code_lines(&directory.join("chatbot.rs"));
    assert!(lines <= CHATBOT_LINES, "chatbot.rs has {lines} lines of code");
}
