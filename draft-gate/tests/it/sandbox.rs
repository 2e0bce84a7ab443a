//! Checks of the project run in a sandbox, on the files as they would be.

use std::process::Command;

use draft_gate::DraftRequest;

use crate::support::{OLD, TestWorkspace};

/// Python has to be able to read what the change leaves, and must not reach anything else.
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
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains(expect), "{output} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ws.path("src/b.py").exists(), expect == "Accept");
    // What a check does to its copy stays there.
    assert_eq!(ws.text("src/a.py"), OLD);
}

#[test]
fn a_change_that_passes_is_accepted() {
    check("x = 1\n", "Accept");
}

#[test]
fn a_change_that_fails_is_rejected_with_what_the_check_said() {
    check("def (:\n", "`compiles` failed");
}

/// How long a check would have taken says nothing about the change, so a person hears of it.
#[test]
fn a_check_that_takes_too_long_goes_to_a_person() {
    let contract = r#"{"draft_gate": {"checks": [
        {"name": "slow", "program": "sleep", "args": ["60"], "timeout_s": 1}]}}"#;
    let ws = TestWorkspace::with_contract(contract);
    ws.submit(&ws.draft(&DraftRequest::create("src/b.py", "t"), "x = 1\n"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    let output = command.arg("--workspace").arg(ws.path("")).arg("judge").output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("Escalate") && output.contains("it took longer than 1 s"), "{output}");
    assert_eq!(ws.gate.pending().unwrap().len(), 1);
}
