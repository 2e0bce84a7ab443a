//! Tests of extracting files from a model's text.

use draft_gate::{Decision, extract};

use crate::support::{OLD, TestWorkspace, with_line};

#[track_caller]
fn check(text: &str, expect: &[(&str, &str)]) {
    let files = extract(text).unwrap();
    let files: Vec<(&str, &str)> =
        files.iter().map(|it| (it.path.as_str(), it.content.as_str())).collect();
    assert_eq!(files, expect, "{text}");
}

#[test]
fn formats_that_models_write_are_recognized() {
    check("Here:\n```python src/a.py\nx\n```\nDone.", &[("src/a.py", "x\n")]);
    check("```src/a.py\nx\n```", &[("src/a.py", "x\n")]);
    check("```python title=\"src/a.py\"\nx\n```", &[("src/a.py", "x\n")]);
    check("### `src/a.py`\n\n```python\nx\n```", &[("src/a.py", "x\n")]);
    check("**src/a.py**:\n```\nx\n```", &[("src/a.py", "x\n")]);
    check("File: src/a.py\n```python\nx\n```", &[("src/a.py", "x\n")]);
    check("```python\n# src/a.py\nx\n```", &[("src/a.py", "x\n")]);
    check("```rust\n// src/a.rs\nx\n```", &[("src/a.rs", "x\n")]);
    check("```a.py\nx\n```\ntext\n```b.py\ny\n\nz\n```", &[("a.py", "x\n"), ("b.py", "y\n\nz\n")]);
    check("```ä.py\nx\n```", &[("ä.py", "x\n")]);
    check("Change it, e.g. so:\n\nsrc/a.py\n```\nx\n```", &[("src/a.py", "x\n")]);
    check("```a.py\n#!/usr/bin/env python3\nx\n```", &[("a.py", "#!/usr/bin/env python3\nx\n")]);
    check("````README.md\n```\nnested\n```\n````", &[("README.md", "```\nnested\n```\n")]);
}

#[test]
fn invalid_texts_are_errors_and_yield_no_partial_files() {
    for text in [
        "no block at all", "", "```python\nx = 1\n```", "```a.py\nx\n```\n```b.py\nnever closed\n",
        // None of these texts contains a file name.
        "```python\n#!/usr/bin/env python3\nx\n```", "```c\n#include <stdio.h>\nx\n```",
        "Version 1.2, e.g. this:\n```\nx\n```",
    ] {
        assert!(extract(text).is_err(), "{text}");
    }
}

#[test]
fn extracted_files_pass_through_the_gate() {
    let ws = TestWorkspace::new();
    let text = format!("```src/a.py\n{}```\n```src/new.py\nnew\n```\n", with_line(OLD));
    let submitted = ws.gate.submit_text("w", "t", &text).unwrap();
    assert_eq!(ws.gate.judge(&submitted.set).unwrap().decision, Decision::Accept);
    assert_eq!((ws.text("src/a.py"), ws.text("src/new.py")), (with_line(OLD), "new\n".to_owned()));
    assert!(ws.gate.submit_text("w", "t", "```../outside/a.py\nx\n```").is_err());
    ws.check_outside();
    // A text with one invalid file leaves nothing behind that would be added to the next set.
    let bad = "```src/half.py\nhalf\n```\n```conf/.env\nx\n```";
    assert!(ws.gate.submit_text("w", "t", bad).is_err());
    let next = ws.gate.submit_text("w", "t", "```src/next.py\nnext\n```").unwrap();
    assert_eq!(ws.gate.judge(&next.set).unwrap().decision, Decision::Accept);
    assert!(ws.path("src/next.py").exists() && !ws.path("src/half.py").exists());
    assert!(ws.gate.submit_text("w", "t", "sorry").is_err());
    assert_eq!(ws.gate.stats().unwrap().parse_failure_rate(), Some(1.0 / 5.0));
}

#[test]
fn the_extraction_code_is_shorter_than_fifty_lines() {
    let code = include_str!("../../src/extract.rs");
    let lines = code.lines().filter(|it| !it.trim().is_empty() && !it.trim().starts_with("//"));
    assert!(lines.clone().count() < 50, "{}", lines.count());
}

/// A rejected text must leave no drafts behind. If a file appears twice in a text, the last version must be used.
#[test]
fn rejected_texts_leave_no_partial_set() {
    let ws = TestWorkspace::new();
    let bad = "```src/half.py\nhalf\n```\n```src/nul.py\nx\0y\n```\n";
    assert!(ws.gate.submit_text("w", "t", bad).is_err());
    let twice = "```src/next.py\nfirst\n```\n```src/next.py\nsecond\n```\n";
    let set = ws.gate.submit_text("w", "t", twice).unwrap().set;
    ws.gate.judge(&set).unwrap();
    assert_eq!(ws.text("src/next.py"), "second\n");
    assert!(!ws.path("src/half.py").exists());
}

/// A text with too many files must be rejected as a whole.
#[test]
fn texts_with_too_many_files_leave_no_partial_set() {
    let ws = TestWorkspace::new();
    let many: String = (0..201).map(|it| format!("```src/{it}.py\nx = {it}\n```\n")).collect();
    assert_eq!(extract(&many), Err("it has more than 200 files"));
    assert!(ws.gate.submit_text("w", "t", &many).is_err());
    assert!(ws.gate.incomplete().unwrap().is_empty());
    let set = ws.gate.submit_text("w", "t", "```src/next.py\nnext\n```\n").unwrap().set;
    assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert!(ws.path("src/next.py").exists() && !ws.path("src/0.py").exists());
}
