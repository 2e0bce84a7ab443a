//! Tests of the reviewer's commands.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use draft_gate::{DraftRequest, MessageKind, Submission};
use test_support::is_nightly;

use crate::support::{OLD, TestWorkspace, with_line};

const SEEN_BY_A_PERSON: &str = r#"{"draft_gate": {"preview": "always"}}"#;

/// The output of a command, and whether the command succeeded.
struct CommandOutput {
    is_ok: bool,
    out: String,
    err: String,
}

/// Runs a command in a workspace with `input` on standard input.
fn run(
    ws: &TestWorkspace,
    args: &[&str],
    input: &str,
    variables: &[(&str, &str)],
) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    command.args(["--workspace"]).arg(ws.path("")).args(args).envs(variables.iter().copied());
    command.env_remove("NO_COLOR").env_remove("VISUAL").env("USER", "erik");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandOutput {
        is_ok: output.status.success(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[test]
fn review_accepts() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &with_line(OLD));
    let output = run(&ws, &["review"], "what?\na\n", &[]);
    assert!(output.is_ok, "{}", output.err);
    assert!(output.out.contains("worker w\ntask t\nsummary a change\n"), "{}", output.out);
    assert!(
        output.out.contains("1. review the contract requires a review of every change"),
        "{}",
        output.out
    );
    assert!(output.out.contains("\n+seven\n"), "{}", output.out);
    assert_eq!(output.out.matches("[a]ccept").count(), 2, "unknown answers repeat the question");
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
    let accepted = ws.gate.records().unwrap().into_iter().find(|it| it.event == "accepted");
    assert_eq!(accepted.unwrap().agent_id, "erik");
    assert_eq!(run(&ws, &["review"], "", &[]).out, "no pending change sets\n");
}

#[test]
fn review_rejects_with_a_reason_for_the_worker() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &with_line(OLD));
    assert!(run(&ws, &["review"], "r\nnot like this\n", &[]).is_ok);
    let message = ws.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!(
        (message.kind, message.reason.as_str()),
        (MessageKind::DraftRejected, "not like this")
    );
    let output = run(&ws, &["inbox", "--worker", "w", "--task", "t"], "", &[]);
    let kinds: Vec<&str> = output.out.lines().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(kinds, ["DRAFT_READY", "DRAFT_ESCALATED", "DRAFT_REJECTED"], "{}", output.out);
    assert_eq!(run(&ws, &["inbox"], "", &[]).out.lines().count(), 2);
}

#[test]
fn review_amends_in_an_editor_and_accepts_the_result() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.put("src/b.py", OLD);
    let worker = ws.gate.worker("w").unwrap();
    let first = ws.draft(&DraftRequest::edit("src/b.py", "t"), &with_line(OLD));
    worker.submit(&Submission::of(&first, "x").more_to_come()).unwrap();
    ws.gate
        .judge(&ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), "gone\n")).set)
        .unwrap();
    let better = ws.path("../better.py");
    fs::write(&better, OLD.replace("six", "6")).unwrap();
    let editor = format!("cp {}", better.display());
    let variables = [("EDITOR", editor.as_str())];
    let output = run(&ws, &["review"], "m\nsrc/a.py\na\n", &variables);
    assert!(output.is_ok, "{}", output.err);
    assert!(output.out.contains("which file? ") && output.out.contains("\n+6\n"), "{}", output.out);
    assert_eq!(ws.text("src/a.py"), OLD.replace("six", "6"));
    assert_eq!(ws.text("src/b.py"), with_line(OLD));
    // If the editor fails, nothing is changed.
    ws.edit("src/a.py", &OLD.replace("six", "seven"));
    let output = run(&ws, &["review"], "m\n", &[("EDITOR", "false")]);
    assert!(
        !output.is_ok && output.err.contains("`false` failed; nothing was changed"),
        "{}",
        output.err
    );
    assert_eq!(ws.count("amended"), 1);
}

#[test]
fn skipped_sets_stay_pending_and_closed_input_is_an_error() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &with_line(OLD));
    for input in ["s\n", "q\n"] {
        assert!(run(&ws, &["review"], input, &[]).is_ok);
    }
    let output = run(&ws, &["review"], "", &[]);
    assert!(!output.is_ok && output.err.contains("standard input is closed"), "{}", output.err);
    assert_eq!(ws.gate.pending().unwrap().len(), 1);
    assert_eq!(ws.text("src/a.py"), OLD);
}

#[test]
fn diffs_are_colored_and_escape_workers_text() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &OLD.replace("six\n", "\u{1b}[2Jseven\n"));
    let colours = run(&ws, &["show"], "", &[("CLICOLOR_FORCE", "1")]).out;
    for part in [
        "\u{1b}[31m-six\u{1b}[0m", "\u{1b}[32m+\\u{1b}[2Jseven\u{1b}[0m",
        "\u{1b}[33mreview\u{1b}[0m",
    ] {
        assert!(colours.contains(part), "{part:?} in {colours:?}");
    }
    let plain = run(&ws, &["show"], "", &[]).out;
    assert!(!plain.contains('\u{1b}') && plain.contains("\n-six\n"), "{plain}");
    assert!(plain.starts_with("worker w\ntask t\nsummary a change\nchange set "), "{plain}");
}

#[test]
fn pending_sets_are_listed_and_incomplete_ones_dropped() {
    let ws = TestWorkspace::new();
    assert_eq!(run(&ws, &["pending"], "", &[]).out, "no pending change sets\n");
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let submission = Submission::of(&draft, "one of two").more_to_come();
    let set = ws.gate.worker("w").unwrap().submit(&submission).unwrap().set;
    let output = run(&ws, &["pending"], "", &[]).out;
    assert!(output.starts_with(&set) && output.contains("awaits more drafts"), "{output}");
    assert_eq!(run(&ws, &["drop", &set[..6]], "", &[]).out, format!("{set} dropped\n"));
    assert_eq!(run(&ws, &["pending"], "", &[]).out, "no pending change sets\n");
    // If two sets are pending, an id is required.
    ws.propose_deletion("src/a.py");
    ws.create(".github/x.yml", "x: 1\n");
    let output = run(&ws, &["show"], "", &[]);
    assert!(
        !output.is_ok && output.err.contains("several change sets are pending; name one"),
        "{}",
        output.err
    );
}

/// A closed pipe must not be an error, for example in `draft-gate log | head -1`.
#[test]
fn closed_pipes_end_commands_quietly() {
    let ws = TestWorkspace::new();
    ws.propose_deletion("src/a.py");
    for command in ["log", "inbox", "pending", "show", "stats", "verify", "prune", "review"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        program.arg("--workspace").arg(ws.path("")).arg(command);
        let output = program.stdin(Stdio::null()).stdout(writer).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{command}");
    }
    assert_eq!(ws.gate.pending().unwrap().len(), 1);
}

#[test]
fn unreadable_files_are_named_in_errors() {
    let ws = TestWorkspace::new();
    let waiting = ws.propose_deletion("src/a.py");
    let fingerprint = waiting.fingerprint.to_string();
    let amend = [
        "amend", &waiting.set, "--fingerprint", &fingerprint, "--path", "src/a.py", "--with",
        "nosuch.txt",
    ];
    for args in [&["extract", "--task", "t", "nosuch.txt"][..], &amend] {
        let output = run(&ws, args, "", &[]);
        assert!(!output.is_ok && output.err.contains("cannot read `nosuch.txt`"), "{}", output.err);
    }
}

/// The mode of a new file must follow the user's umask.
#[test]
fn new_files_follow_the_umask() {
    let ws = TestWorkspace::new();
    for (umask, expect) in [("022", 0o644), ("027", 0o640), ("077", 0o600)] {
        let path = format!("src/{umask}.py");
        ws.submit(&ws.draft(&DraftRequest::create(&path, "t"), "x\n"));
        let script = format!("umask {umask}; exec \"$0\" --workspace \"$1\" judge");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_draft-gate")]).arg(ws.path(""));
        assert!(shell.output().unwrap().status.success());
        let mode = fs::metadata(ws.path(&path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expect, "{umask}");
    }
}

/// A server must judge only its own worker's submissions.
#[test]
fn servers_judge_only_submissions_of_their_own_worker() {
    let ws = TestWorkspace::new();
    ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD)));
    for (worker, expect) in [("v", OLD.to_owned()), ("w", with_line(OLD))] {
        run(&ws, &["serve", "--worker", worker], "", &[]);
        assert_eq!(ws.text("src/a.py"), expect, "{worker}");
    }
}

#[test]
fn commands_without_a_gate_fail_and_create_none() {
    let dir = tempfile::tempdir().unwrap();
    for command in
        [&["log"][..], &["verify"], &["pending"], &["stats"], &["review"], &["prune"], &["judge"]]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        let output = program.current_dir(dir.path()).args(command).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && stderr.contains("has no gate"),
            "{command:?}: {stderr}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// An endless draft on standard input must be skipped, and the server must continue.
#[test]
fn endless_drafts_do_not_exhaust_the_server() {
    let ws = TestWorkspace::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    command.args(["serve", "--workspace"]).arg(ws.path(""));
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let hello = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}"#;
    writeln!(input, "{}", hello.replace('\n', " ")).unwrap();
    lines.next().unwrap().unwrap();
    writeln!(input, r#"{{"jsonrpc": "2.0", "method": "notifications/initialized"}}"#).unwrap();
    let call = r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ollama_write_draft",
        "arguments": {"draft_path": "_handoff/drafts/a.py.t.draft", "content": ""#;
    write!(input, "{}", call.replace('\n', " ")).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let n_pieces = if is_nightly() { 2048 } else { 64 };
    (0..n_pieces).for_each(|_| input.write_all(&piece).unwrap());
    writeln!(input, r#""}}}}}}"#).unwrap();
    writeln!(input, r#"{{"jsonrpc": "2.0", "id": 3, "method": "ping"}}"#).unwrap();
    let answer = lines.map(Result::unwrap).find(|it| it.contains(r#""id":3"#)).unwrap();
    assert!(answer.contains("result"), "{answer}");
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let most = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 60_000, "{most}");
    drop(input);
    assert!(server.wait().unwrap().success());
}
