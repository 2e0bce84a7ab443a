//! Tests of project checks in a sandbox.

use std::process::Command;

use draft_gate::DraftRequest;

use crate::support::{OLD, TestWorkspace};

/// A contract with two checks: Python must be able to parse the changed file, and a check must not see the gate's
/// files.
const CONTRACT: &str = r#"{"draft_gate": {"checks": [
    {"name": "compiles", "program": "python3", "args": ["-m", "py_compile", "src/b.py"]},
    {"name": "confined", "program": "sh", "args": ["-c", "echo changed > src/a.py; ! test -e _handoff"]}
]}}"#;

#[track_caller]
fn check(content: &str, expect: &str) {
    let ws = TestWorkspace::with_contract(CONTRACT);
    ws.submit(&ws.draft(&DraftRequest::create("src/b.py", "t"), content));
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    let output = command.arg("--workspace").arg(ws.path("")).arg("judge").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains(expect), "{stdout} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ws.path("src/b.py").exists(), expect == "Accept");
    // Changes that a check makes to its copy do not reach the workspace.
    assert_eq!(ws.text("src/a.py"), OLD);
}

#[test]
fn changes_that_pass_are_accepted() {
    check("x = 1\n", "Accept");
}

#[test]
fn failing_changes_are_rejected_with_the_output_of_the_check() {
    check("def (:\n", "`compiles` failed");
}

/// A check that times out must lead to an escalation, because a timeout says nothing about the change.
#[test]
fn checks_that_time_out_are_escalated() {
    let contract = r#"{"draft_gate": {"checks": [
        {"name": "slow", "program": "sleep", "args": ["60"], "timeout_s": 1}]}}"#;
    let ws = TestWorkspace::with_contract(contract);
    ws.submit(&ws.draft(&DraftRequest::create("src/b.py", "t"), "x = 1\n"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    let output = command.arg("--workspace").arg(ws.path("")).arg("judge").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.contains("Escalate") && stdout.contains("it exceeded the time limit of 1 s"),
        "{stdout}"
    );
    assert_eq!(ws.gate.pending().unwrap().len(), 1);
}
