//! Checks of the project run in a sandbox, on the files as they would be.

use std::process::Command;

use draft_gate::Request;

use crate::support::{OLD, Place};

/// Python has to be able to read what the change leaves, and must not reach anything else.
const CONTRACT: &str = r#"{"draft_gate": {"checks": [
    {"name": "compiles", "program": "python3", "args": ["-m", "py_compile", "src/b.py"]},
    {"name": "confined", "program": "sh", "args": ["-c", "echo changed > src/a.py; ! test -e _handoff"]}
]}}"#;

#[track_caller]
fn check(content: &str, expect: &str) {
    let place = Place::with_contract(CONTRACT);
    place.submit(&place.draft(&Request::create("src/b.py", "t"), content));
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    let output = command.arg("--workspace").arg(place.path("")).arg("judge").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(expect), "{said} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.path("src/b.py").exists(), expect == "Accept");
    // What a check does to its copy stays there.
    assert_eq!(place.text("src/a.py"), OLD);
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
    let place = Place::with_contract(contract);
    place.submit(&place.draft(&Request::create("src/b.py", "t"), "x = 1\n"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    let output = command.arg("--workspace").arg(place.path("")).arg("judge").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Escalate") && said.contains("it took longer than 1 s"), "{said}");
    assert_eq!(place.gate.pending().unwrap().len(), 1);
}
