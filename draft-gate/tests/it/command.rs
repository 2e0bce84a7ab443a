//! The commands of who decides, as they are typed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use draft_gate::{MessageKind, Request, Submission};

use crate::support::{OLD, Place, is_nightly, with_line};

const SEEN_BY_A_PERSON: &str = r#"{"draft_gate": {"preview": "always"}}"#;

/// What a command printed, and whether it succeeded.
struct Said {
    is_ok: bool,
    out: String,
    err: String,
}

/// Runs a command in a workspace; `input` is what the person types.
fn run(place: &Place, args: &[&str], input: &str, variables: &[(&str, &str)]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    command.args(["--workspace"]).arg(place.path("")).args(args).envs(variables.iter().copied());
    command.env_remove("NO_COLOR").env_remove("VISUAL").env("USER", "erik");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { is_ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_person_accepts_in_review() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    place.edit("src/a.py", &with_line(OLD));
    let said = run(&place, &["review"], "what?\na\n", &[]);
    assert!(said.is_ok, "{}", said.err);
    assert!(said.out.contains("w for task t says: a change"), "{}", said.out);
    assert!(
        said.out.contains("1. look the contract wants every change to be seen"),
        "{}",
        said.out
    );
    assert!(said.out.contains("\n+seven\n"), "{}", said.out);
    assert_eq!(said.out.matches("[a]ccept").count(), 2, "what it does not know it asks again");
    assert_eq!(place.text("src/a.py"), with_line(OLD));
    let accepted = place.gate.records().unwrap().into_iter().find(|it| it.event == "accepted");
    assert_eq!(accepted.unwrap().agent_id, "erik");
    assert_eq!(run(&place, &["review"], "", &[]).out, "nothing waits\n");
}

#[test]
fn a_person_rejects_in_review_and_the_worker_reads_why() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    place.edit("src/a.py", &with_line(OLD));
    assert!(run(&place, &["review"], "r\nnot like this\n", &[]).is_ok);
    let told = place.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!((told.kind, told.reason.as_str()), (MessageKind::DraftRejected, "not like this"));
    let said = run(&place, &["inbox", "--worker", "w", "--task", "t"], "", &[]);
    let kinds: Vec<&str> = said.out.lines().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(kinds, ["DRAFT_READY", "DRAFT_ESCALATED", "DRAFT_REJECTED"], "{}", said.out);
    assert_eq!(run(&place, &["inbox"], "", &[]).out.lines().count(), 2);
}

#[test]
fn a_person_amends_in_an_editor_and_accepts_what_came_of_it() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    place.put("src/b.py", OLD);
    let worker = place.gate.worker("w").unwrap();
    let first = place.draft(&Request::edit("src/b.py", "t"), &with_line(OLD));
    worker.submit(&Submission::of(&first, "x").more_to_come()).unwrap();
    place
        .gate
        .judge(&place.submit(&place.draft(&Request::edit("src/a.py", "t"), "gone\n")).set)
        .unwrap();
    let better = place.path("../better.py");
    fs::write(&better, OLD.replace("six", "6")).unwrap();
    let editor = format!("cp {}", better.display());
    let variables = [("EDITOR", editor.as_str())];
    let said = run(&place, &["review"], "m\nsrc/a.py\na\n", &variables);
    assert!(said.is_ok, "{}", said.err);
    assert!(said.out.contains("which file? ") && said.out.contains("\n+6\n"), "{}", said.out);
    assert_eq!(place.text("src/a.py"), OLD.replace("six", "6"));
    assert_eq!(place.text("src/b.py"), with_line(OLD));
    // An editor that fails changes nothing.
    place.edit("src/a.py", &OLD.replace("six", "seven"));
    let said = run(&place, &["review"], "m\n", &[("EDITOR", "false")]);
    assert!(!said.is_ok && said.err.contains("`false` failed; nothing is changed"), "{}", said.err);
    assert_eq!(place.count("amended"), 1);
}

#[test]
fn what_is_skipped_waits_and_nobody_to_ask_is_an_error() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    place.edit("src/a.py", &with_line(OLD));
    for input in ["s\n", "q\n"] {
        assert!(run(&place, &["review"], input, &[]).is_ok);
    }
    let said = run(&place, &["review"], "", &[]);
    assert!(!said.is_ok && said.err.contains("there is nobody to ask"), "{}", said.err);
    assert_eq!(place.gate.pending().unwrap().len(), 1);
    assert_eq!(place.text("src/a.py"), OLD);
}

#[test]
fn differences_have_colours_and_what_a_worker_wrote_has_none() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    place.edit("src/a.py", &OLD.replace("six\n", "\u{1b}[2Jseven\n"));
    let colours = run(&place, &["show"], "", &[("CLICOLOR_FORCE", "1")]).out;
    for part in [
        "\u{1b}[31m-six\u{1b}[0m",
        "\u{1b}[32m+\\u{1b}[2Jseven\u{1b}[0m",
        "\u{1b}[33mlook\u{1b}[0m",
    ] {
        assert!(colours.contains(part), "{part:?} in {colours:?}");
    }
    let plain = run(&place, &["show"], "", &[]).out;
    assert!(!plain.contains('\u{1b}') && plain.contains("\n-six\n"), "{plain}");
}

#[test]
fn what_waits_is_listed_and_what_is_not_complete_is_dropped() {
    let place = Place::new();
    assert_eq!(run(&place, &["pending"], "", &[]).out, "nothing waits\n");
    let draft = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    let submission = Submission::of(&draft, "one of two").more_to_come();
    let set = place.gate.worker("w").unwrap().submit(&submission).unwrap().set;
    let said = run(&place, &["pending"], "", &[]).out;
    assert!(said.starts_with(&set) && said.contains("waits for more drafts"), "{said}");
    assert_eq!(run(&place, &["drop", &set[..6]], "", &[]).out, format!("{set} is dropped\n"));
    assert_eq!(run(&place, &["pending"], "", &[]).out, "nothing waits\n");
    // Two that wait have to be told apart.
    place.propose_deletion("src/a.py");
    place.create(".github/x.yml", "x: 1\n");
    let said = run(&place, &["show"], "", &[]);
    assert!(!said.is_ok && said.err.contains("several change sets wait; name one"), "{}", said.err);
}

/// As in `draft-gate log | head -1`: who reads has read enough, and nothing has failed.
#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let place = Place::new();
    place.propose_deletion("src/a.py");
    for command in ["log", "inbox", "pending", "show", "stats", "verify", "prune", "review"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        program.arg("--workspace").arg(place.path("")).arg(command);
        let output = program.stdin(Stdio::null()).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{command}");
    }
    assert_eq!(place.gate.pending().unwrap().len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let place = Place::new();
    let waiting = place.propose_deletion("src/a.py");
    let sight = waiting.sight.to_string();
    let amend =
        ["amend", &waiting.set, "--sight", &sight, "--path", "src/a.py", "--with", "nosuch.txt"];
    for args in [&["extract", "--task", "t", "nosuch.txt"][..], &amend] {
        let said = run(&place, args, "", &[]);
        assert!(!said.is_ok && said.err.contains("cannot read `nosuch.txt`"), "{}", said.err);
    }
}

/// A new file is for whom the user's umask says.
#[test]
fn a_new_file_has_the_mode_that_the_umask_leaves() {
    let place = Place::new();
    for (umask, expect) in [("022", 0o644), ("027", 0o640), ("077", 0o600)] {
        let path = format!("src/{umask}.py");
        place.submit(&place.draft(&Request::create(&path, "t"), "x\n"));
        let script = format!("umask {umask}; exec \"$0\" --workspace \"$1\" judge");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_draft-gate")]).arg(place.path(""));
        assert!(shell.output().unwrap().status.success());
        let mode = fs::metadata(place.path(&path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expect, "{umask}");
    }
}

/// What one worker's server leaves to others is not judged by another worker's.
#[test]
fn a_server_judges_at_its_start_what_its_own_worker_left() {
    let place = Place::new();
    place.submit(&place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD)));
    for (worker, expect) in [("v", OLD.to_owned()), ("w", with_line(OLD))] {
        run(&place, &["serve", "--worker", worker], "", &[]);
        assert_eq!(place.text("src/a.py"), expect, "{worker}");
    }
}

#[test]
fn commands_in_a_folder_without_a_gate_say_so_and_make_none() {
    let folder = tempfile::tempdir().unwrap();
    for command in
        [&["log"][..], &["verify"], &["pending"], &["stats"], &["review"], &["prune"], &["judge"]]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
        let output = program.current_dir(folder.path()).args(command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("has no gate"), "{command:?}: {said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A draft that never ends, over the server's standard input: it is left out, and the server goes on.
#[test]
fn a_draft_without_end_costs_the_server_little() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_draft-gate"));
    command.args(["serve", "--workspace"]).arg(place.path(""));
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
