//! Runs that cannot complete: their exit status, their instructions, and how they are resumed.

use std::{fs, process::Command};

use super::{Workspace, read};

/// Runs a shell command in a workspace, after replacing `consulting` in the command with the path of the program.
/// Returns the exit status and the output.
fn shell(workspace: &Workspace, line: &str) -> (Option<i32>, String) {
    let consulting = env!("CARGO_BIN_EXE_consulting");
    let line = line.replace("consulting", consulting);
    let mut command = Command::new("sh");
    let result = command.current_dir(workspace.0.path()).args(["-c", &line]).output().unwrap();
    let output = [result.stdout, result.stderr].concat();
    (result.status.code(), String::from_utf8_lossy(&output).into_owned())
}

const SMALL: &str =
    "consulting run NVDA --config small.toml --provider scripted --sandbox in-process --out made";

#[test]
fn incomplete_runs_have_their_own_exit_status_and_instructions() {
    let workspace = Workspace::of_size(3, 1, 4);
    let (code, output) = shell(&workspace, &format!("{SMALL} --max-tokens 120000"));
    assert_eq!(code, Some(4), "{output}");
    assert!(output.contains("is incomplete. To try again, run: consulting resume made\n"));
    assert!(output.contains("--max-tokens N"), "{output}");
    for name in ["report.md", "report.html"] {
        let report = read(&workspace.path("made").join(name));
        let (top, _) = report.split_once("Recommended").unwrap();
        assert!(top.contains("Incomplete: ") && top.contains("raise the limit"), "{top}");
    }
    let (code, output) = shell(&workspace, "consulting resume made --max-tokens 9000000");
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("3 scored, in"), "{output}");
    let (code, output) = shell(&workspace, "consulting resume made");
    assert!(code == Some(0) && output.contains("nothing left to do"), "{output}");
    let (code, output) = shell(&workspace, "consulting replay made --quiet");
    assert_eq!(code, Some(0), "{output}");
}

#[test]
fn the_scripted_model_is_refused_beside_models_of_agents() {
    let workspace = Workspace::of_size(1, 1, 1);
    let path = workspace.path("small.toml");
    let config = read(&path) + "\n[models.D1]\nmodel = \"groq/some-model\"\n";
    fs::write(path, config).unwrap();
    let (code, output) = shell(&workspace, SMALL);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("the configuration sets a model for D1"), "{output}");
}

#[test]
fn a_full_disk_fails_the_run_and_skips_no_move() {
    let workspace = Workspace::of_size(3, 1, 4);
    // Simulates a full disk by limiting the size of files. The recording or the database exceeds the limit during the
    // debates.
    let full = "trap '' XFSZ; ulimit -f 2500;";
    let (code, output) = shell(&workspace, &format!("{full} {SMALL}"));
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("calls.jsonl") || output.contains("state.db"), "{output}");
    assert!(!output.contains("storage failed: the checkpoint storage failed"), "{output}");
    let events = read(&workspace.path("made/events.jsonl"));
    assert!(events.contains("sandbox_ready") && !events.contains("sandbox_skipped"), "{events}");
    let (code, output) = shell(&workspace, "consulting resume made --quiet");
    assert!(code == Some(0) && output.contains("3 scored, in"), "{output}");
    let (code, output) = shell(&workspace, "consulting replay made --quiet");
    assert_eq!(code, Some(0), "{output}");
}
