//! Runs the whole draft cycle over standard input and output with the official MCP client (PyPI package `mcp`).

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use test_support::peers;

use crate::support::TestWorkspace;

/// Name of the directory in which xtask installs the client; see `xtask/src/peers.rs`.
const CLIENT: &str = "mcp-2.3.0";

#[test]
fn the_official_mcp_client_can_request_submit_and_judge_drafts() {
    let Some(client) = peers::find(CLIENT, "GRAPH_REQUIRE_MCP") else { return };
    let ws = TestWorkspace::new();
    let old = "import sys\n\n\ndef main():\n    print(\"watching\")\n\n\nmain()\n";
    ws.put("src/watchdog.py", old);
    ws.put("src/old.py", "x = 1\n");
    let key = format!("ghp_{}", "x7Kq2LmN9pRs4TvWz1Yb3Cd5Ef6Gh8JkQaUe");
    let output = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cycle.py"))
        .arg(env!("CARGO_BIN_EXE_draft-gate"))
        .arg(ws.path(""))
        .arg(&key)
        .env("PYTHONPATH", client)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();

    let tools = seen["tools"].as_object().unwrap();
    assert_eq!(
        tools["ollama_request_draft"],
        json!(["create", "operation", "restore", "source_path", "task_id"])
    );
    assert_eq!(tools["ollama_write_draft"], json!(["content", "draft_path"]));
    assert_eq!(tools["ollama_read_draft"], json!(["draft_path"]));
    assert_eq!(
        tools["ollama_submit_draft"],
        json!(["change_summary", "draft_path", "more_to_come", "original_path", "task_id"])
    );
    let draft = "_handoff/drafts/watchdog.py.phase10_version_flag.draft";
    assert_eq!(seen["requested"]["draft_path"], draft);
    assert_eq!(
        seen["requested"]["original_hash"],
        draft_gate::Digest::of(old.as_bytes()).to_string()
    );
    assert_eq!(seen["requested"]["line_count"], 8);
    let new = fs::read_to_string(ws.path("src/watchdog.py")).unwrap();
    assert!(new.contains("--version"));
    assert_eq!(seen["read"], json!({"content": new, "line_count": 11}));
    let hash = draft_gate::Digest::of(new.as_bytes()).to_string();
    assert_eq!(seen["written"], json!({"success": true, "new_hash": hash, "line_count": 11}));
    assert_eq!(
        (&seen["submitted"]["submitted"], &seen["submitted"]["status"]),
        (&json!(true), &json!("ACCEPT"))
    );
    let messages = &seen["inbox"]["messages"];
    assert_eq!(messages[0]["type"], "DRAFT_READY");
    assert_eq!(messages[0]["message_id"], seen["submitted"]["message_id"]);
    assert_eq!(messages[1]["type"], "DRAFT_ACCEPTED");
    for refused in ["replayed", "outside", "elsewhere"] {
        assert!(
            seen[refused]["error"].as_str().unwrap().starts_with("SECURITY:"),
            "{}",
            seen[refused]
        );
    }
    assert_eq!(seen["secret"]["status"], "REJECT");
    assert!(seen["secret"]["findings"][0].as_str().unwrap().starts_with("src/key.py:1:"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains(&key));
    assert_eq!(seen["deletion"]["status"], "ESCALATE");

    decide_on_the_command_line(&ws);
    ws.check_outside();
}

/// Makes the decisions on the command line, as a reviewer would.
fn decide_on_the_command_line(ws: &TestWorkspace) {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        let output = command.arg("--workspace").arg(ws.path("")).args(args).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (_, pending) = run(&["pending"]);
    let set = pending.split_whitespace().next().unwrap().to_owned();
    let (_, shown) = run(&["show", &set]);
    assert!(
        shown.contains("1. review src/old.py: the file would be deleted")
            && shown.contains("-x = 1"),
        "{shown}"
    );
    let fingerprint =
        shown.lines().last().unwrap().strip_prefix("fingerprint ").unwrap().to_owned();
    assert!(!run(&["accept", &set, "--fingerprint", "000000000000"]).0);
    assert!(run(&["accept", &set, "--fingerprint", &fingerprint, "--as", "erik"]).0);
    assert!(!ws.path("src/old.py").exists());
    assert!(run(&["undo", &set]).0);
    assert_eq!(ws.text("src/old.py"), "x = 1\n");
    let (is_whole, output) = run(&["verify"]);
    assert!(is_whole && output.contains("unmodified"), "{output}");
    assert!(run(&["stats"]).1.contains("1 undone"));
    let log = ws.text("_handoff/transition.ndjson");
    fs::write(ws.path("_handoff/transition.ndjson"), log.replace("erik", "eric")).unwrap();
    assert!(!run(&["verify"]).0);
}
