//! The commands of who decides, as they are typed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use draft_gate::{DraftRequest, MessageKind, Submission};

use crate::support::{OLD, TestWorkspace, is_nightly, with_line};

const SEEN_BY_A_PERSON: &str = r#"{"draft_gate": {"preview": "always"}}"#;

/// What a command printed, and whether it succeeded.
struct CommandOutput {
    is_ok: bool,
    out: String,
    err: String,
}

/// Runs a command in a workspace; `input` is what the person types.
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
fn a_person_accepts_in_review() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &with_line(OLD));
    let output = run(&ws, &["review"], "what?\na\n", &[]);
    assert!(output.is_ok, "{}", output.err);
    assert!(output.out.contains("w for task t says: a change"), "{}", output.out);
    assert!(
        output.out.contains("1. look the contract wants every change to be seen"),
        "{}",
        output.out
    );
    assert!(output.out.contains("\n+seven\n"), "{}", output.out);
    assert_eq!(output.out.matches("[a]ccept").count(), 2, "what it does not know it asks again");
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
    let accepted = ws.gate.records().unwrap().into_iter().find(|it| it.event == "accepted");
    assert_eq!(accepted.unwrap().agent_id, "erik");
    assert_eq!(run(&ws, &["review"], "", &[]).out, "nothing waits\n");
}

#[test]
fn a_person_rejects_in_review_and_the_worker_reads_why() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &with_line(OLD));
    assert!(run(&ws, &["review"], "r\nnot like this\n", &[]).is_ok);
    let told = ws.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!((told.kind, told.reason.as_str()), (MessageKind::DraftRejected, "not like this"));
    let output = run(&ws, &["inbox", "--worker", "w", "--task", "t"], "", &[]);
    let kinds: Vec<&str> = output.out.lines().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(kinds, ["DRAFT_READY", "DRAFT_ESCALATED", "DRAFT_REJECTED"], "{}", output.out);
    assert_eq!(run(&ws, &["inbox"], "", &[]).out.lines().count(), 2);
}

#[test]
fn a_person_amends_in_an_editor_and_accepts_what_came_of_it() {
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
    // An editor that fails changes nothing.
    ws.edit("src/a.py", &OLD.replace("six", "seven"));
    let output = run(&ws, &["review"], "m\n", &[("EDITOR", "false")]);
    assert!(
        !output.is_ok && output.err.contains("`false` failed; nothing is changed"),
        "{}",
        output.err
    );
    assert_eq!(ws.count("amended"), 1);
}

#[test]
fn what_is_skipped_waits_and_nobody_to_ask_is_an_error() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &with_line(OLD));
    for input in ["s\n", "q\n"] {
        assert!(run(&ws, &["review"], input, &[]).is_ok);
    }
    let output = run(&ws, &["review"], "", &[]);
    assert!(!output.is_ok && output.err.contains("there is nobody to ask"), "{}", output.err);
    assert_eq!(ws.gate.pending().unwrap().len(), 1);
    assert_eq!(ws.text("src/a.py"), OLD);
}

#[test]
fn differences_have_colours_and_what_a_worker_wrote_has_none() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    ws.edit("src/a.py", &OLD.replace("six\n", "\u{1b}[2Jseven\n"));
    let colours = run(&ws, &["show"], "", &[("CLICOLOR_FORCE", "1")]).out;
    for part in [
        "\u{1b}[31m-six\u{1b}[0m",
        "\u{1b}[32m+\\u{1b}[2Jseven\u{1b}[0m",
        "\u{1b}[33mlook\u{1b}[0m",
    ] {
        assert!(colours.contains(part), "{part:?} in {colours:?}");
    }
    let plain = run(&ws, &["show"], "", &[]).out;
    assert!(!plain.contains('\u{1b}') && plain.contains("\n-six\n"), "{plain}");
}

#[test]
fn what_waits_is_listed_and_what_is_not_complete_is_dropped() {
    let ws = TestWorkspace::new();
    assert_eq!(run(&ws, &["pending"], "", &[]).out, "nothing waits\n");
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let submission = Submission::of(&draft, "one of two").more_to_come();
    let set = ws.gate.worker("w").unwrap().submit(&submission).unwrap().set;
    let output = run(&ws, &["pending"], "", &[]).out;
    assert!(output.starts_with(&set) && output.contains("waits for more drafts"), "{output}");
    assert_eq!(run(&ws, &["drop", &set[..6]], "", &[]).out, format!("{set} is dropped\n"));
    assert_eq!(run(&ws, &["pending"], "", &[]).out, "nothing waits\n");
    // Two that wait have to be told apart.
    ws.propose_deletion("src/a.py");
    ws.create(".github/x.yml", "x: 1\n");
    let output = run(&ws, &["show"], "", &[]);
    assert!(
        !output.is_ok && output.err.contains("several change sets wait; name one"),
        "{}",
        output.err
    );
}

/// As in `draft-gate log | head -1`: who reads has read enough, and nothing has failed.
#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let ws = TestWorkspace::new();
    ws.propose_deletion("src/a.py");
    for command in ["log", "inbox", "pending", "show", "stats", "verify", "prune", "review"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        program.arg("--workspace").arg(ws.path("")).arg(command);
        let output = program.stdin(Stdio::null()).stdout(writer).output().unwrap();
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.as_str()), (Some(0), ""), "{command}");
    }
    assert_eq!(ws.gate.pending().unwrap().len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let ws = TestWorkspace::new();
    let waiting = ws.propose_deletion("src/a.py");
    let fingerprint = waiting.fingerprint.to_string();
    let amend = [
        "amend",
        &waiting.set,
        "--sight",
        &fingerprint,
        "--path",
        "src/a.py",
        "--with",
        "nosuch.txt",
    ];
    for args in [&["extract", "--task", "t", "nosuch.txt"][..], &amend] {
        let output = run(&ws, args, "", &[]);
        assert!(!output.is_ok && output.err.contains("cannot read `nosuch.txt`"), "{}", output.err);
    }
}

/// A new file is for whom the user's umask says.
#[test]
fn a_new_file_has_the_mode_that_the_umask_leaves() {
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

/// What one worker's server leaves to others is not judged by another worker's.
#[test]
fn a_server_judges_at_its_start_what_its_own_worker_left() {
    let ws = TestWorkspace::new();
    ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD)));
    for (worker, expect) in [("v", OLD.to_owned()), ("w", with_line(OLD))] {
        run(&ws, &["serve", "--worker", worker], "", &[]);
        assert_eq!(ws.text("src/a.py"), expect, "{worker}");
    }
}

#[test]
fn commands_in_a_folder_without_a_gate_say_so_and_make_none() {
    let dir = tempfile::tempdir().unwrap();
    for command in
        [&["log"][..], &["verify"], &["pending"], &["stats"], &["review"], &["prune"], &["judge"]]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        let output = program.current_dir(dir.path()).args(command).output().unwrap();
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && output.contains("has no gate"),
            "{command:?}: {output}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A draft that never ends, over the server's standard input: it is left out, and the server goes on.
#[test]
fn a_draft_without_end_costs_the_server_little() {
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
