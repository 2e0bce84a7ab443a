//! Tests that every modification of the log is detected.

use std::fs;

use draft_gate::{Error, Gate};

use crate::support::{OLD, TestWorkspace, with_line};

fn log(ws: &TestWorkspace) -> std::path::PathBuf {
    ws.path("_handoff/transition.ndjson")
}

#[test]
fn every_changed_added_or_removed_byte_is_detected() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    ws.propose_deletion("src/a.py");
    let whole = fs::read(log(&ws)).unwrap();
    let lines = ws.gate.verify().unwrap().lines;
    assert_eq!(lines as usize, whole.split(|it| *it == b'\n').count() - 1);
    let check = |bytes: &[u8], what: &str| {
        fs::write(log(&ws), bytes).unwrap();
        assert!(matches!(ws.gate.verify(), Err(Error::CorruptLog { .. })), "{what}");
    };
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        check(&changed, &format!("byte {at} changed"));
        let removed = [&whole[..at], &whole[at + 1..]].concat();
        check(&removed, &format!("byte {at} removed"));
        check(&whole[..at], &format!("cut at {at}"));
    }
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for at in 0..lines.len() {
        let without: String =
            lines.iter().enumerate().filter(|it| it.0 != at).map(|it| *it.1).collect();
        check(without.as_bytes(), &format!("line {at} removed"));
        let twice: String = lines
            .iter()
            .enumerate()
            .flat_map(|it| vec![*it.1; if it.0 == at { 2 } else { 1 }])
            .collect();
        check(twice.as_bytes(), &format!("line {at} twice"));
    }
    check(&[&whole, b"\n".as_slice()].concat(), "empty line appended");
    check(text.replace('\n', "\r\n").as_bytes(), "line endings changed");
    fs::write(log(&ws), whole).unwrap();
    ws.gate.verify().unwrap();
}

/// A validly chained line from another log must be detected. An attacker who knows the hash chain can append such a
/// line, but `head.json` does not match it.
#[test]
fn validly_chained_foreign_lines_are_detected() {
    let (ws, other) = (TestWorkspace::new(), TestWorkspace::new());
    ws.edit("src/a.py", &with_line(OLD));
    fs::copy(log(&ws), log(&other)).unwrap();
    fs::copy(ws.path("_handoff/gate/head.json"), other.path("_handoff/gate/head.json")).unwrap();
    other.propose_deletion("src/a.py");
    other.gate.verify().unwrap();
    fs::copy(log(&other), log(&ws)).unwrap();
    assert!(matches!(ws.gate.verify(), Err(Error::CorruptLog { .. })));
}

#[test]
fn a_truncated_log_blocks_decisions_until_acknowledged() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    let whole = fs::read_to_string(log(&ws)).unwrap();
    let cut: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(log(&ws), cut).unwrap();
    let worker = ws.gate.worker("w").unwrap();
    let request = draft_gate::DraftRequest::edit("src/a.py", "t");
    assert!(matches!(worker.request(&request), Err(Error::CorruptLog { .. })));
    let gate = Gate::open_unchecked(ws.path("")).unwrap();
    gate.acknowledge_loss("p").unwrap();
    gate.verify().unwrap();
    let last = gate.records().unwrap().pop().unwrap();
    assert_eq!(
        (last.event.as_str(), last.more["expected_line"].as_u64()),
        ("loss_acknowledged", Some(4))
    );
    assert!(worker.request(&request).is_ok());
}

/// Lines that were added or removed anywhere, and changes to the last line, must stop the running gate, not only fail
/// `verify`. Acknowledging the loss makes the gate work again.
#[test]
fn the_running_gate_notices_added_and_removed_lines() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    let (whole, head) = (ws.text("_handoff/transition.ndjson"), ws.path("_handoff/gate/head.json"));
    let stored_head = fs::read(&head).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let n = lines.len();
    let last = lines[n - 1];
    let worker = ws.gate.worker("w").unwrap();
    let request = draft_gate::DraftRequest::edit("src/a.py", "t");
    for (what, changed) in [
        ("last line twice", [&whole, last].concat()),
        ("last two lines twice", [&whole, lines[n - 2], last].concat()),
        ("first line twice", [lines[0], &whole].concat()),
        ("first line removed", lines[1..].concat()),
        ("middle line removed", [&lines[..1], &lines[2..]].concat().concat()),
        ("empty line appended", format!("{whole}\n")),
        ("last line changed", whole.replace("no objections", "no_objections")),
    ] {
        fs::write(log(&ws), &changed).unwrap();
        let error = worker.request(&request).unwrap_err();
        assert!(matches!(error, Error::CorruptLog { .. }), "{what}: {error}");
        Gate::open_unchecked(ws.path("")).unwrap().acknowledge_loss("p").unwrap();
        worker.request(&request).unwrap();
        if what.starts_with("last") && what.ends_with("twice") {
            // The copies are removed, so the whole log is valid again.
            ws.gate.verify().unwrap();
        }
        fs::write(log(&ws), &whole).unwrap();
        fs::write(&head, &stored_head).unwrap();
    }
    ws.gate.verify().unwrap();
}

/// The advice must depend on the place of the change, because acknowledging a loss fixes only the end of the log.
#[test]
fn advice_depends_on_where_the_log_was_changed() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    let whole = ws.text("_handoff/transition.ndjson");
    let verify_error = || ws.gate.verify().unwrap_err().to_string();
    let changes = [whole.replacen("requested", "requestee", 1), whole.replacen('{', "[", 1)];
    for changed in changes {
        fs::write(log(&ws), &changed).unwrap();
        let output = verify_error();
        let unread = ws.gate.records().err().map(|it| it.to_string());
        assert_eq!(unread, (!changed.starts_with('{')).then(|| output.clone()));
        assert!(output.contains("from a copy") && !output.contains("acknowledge-loss"), "{output}");
    }
    // The gate notices every change of the length, so nothing works until the loss is acknowledged.
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for changed in [lines[..2].concat(), lines[1..].concat()] {
        fs::write(log(&ws), changed).unwrap();
        assert!(verify_error().contains("acknowledge-loss"), "{}", verify_error());
    }
    fs::write(log(&ws), whole).unwrap();
    ws.put("_handoff/gate/head.json", "");
    assert!(verify_error().contains("acknowledge-loss"), "{}", verify_error());
}

/// A crash can leave half of a long line after another long line. The incomplete line must be removed even if both
/// together exceed the initial read from the end of the log.
#[test]
fn incomplete_long_lines_are_removed() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let worker = ws.gate.worker("w").unwrap();
    let sets = ["one", "two"].map(|name| {
        let mut set = String::new();
        for at in 0..30 {
            let request = draft_gate::DraftRequest::create(&format!("{name}/{at}.py"), "t");
            let submission = draft_gate::Submission::of(&ws.draft(&request, "x\n"), "x");
            let submission = if at < 29 { submission.more_to_come() } else { submission };
            set = worker.submit(&submission).unwrap().set;
        }
        (ws.gate.judge(&set).unwrap().fingerprint, set)
    });
    ws.gate.accept(&sets[0].1, sets[0].0, "p").unwrap();
    let whole = ws.text("_handoff/transition.ndjson");
    let hook = |what: &'static str, path: &str| {
        if what == "write the rest of a file" && path == "_handoff/transition.ndjson" {
            std::panic::resume_unwind(Box::new("killed"));
        }
    };
    let accept = || {
        let gate = Gate::open_with_hook(ws.path(""), hook).unwrap();
        gate.accept(&sets[1].1, sets[1].0, "p").unwrap();
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(accept)).is_err());
    let n_torn = fs::read(log(&ws)).unwrap().len() - whole.len();
    let n_before = whole.lines().last().unwrap().len();
    assert!(n_torn < 4_096 && n_before + n_torn > 4_096, "{n_torn} {n_before}");
    let gate = Gate::open(ws.path("")).unwrap();
    gate.verify().unwrap();
    assert_eq!(ws.count("accepted"), 2);
    assert_eq!(ws.text("two/29.py"), "x\n");
}

/// Acknowledging a loss must recover from every state that a power failure can leave: an empty `head.json`, half a
/// line, or a line of zeros.
#[test]
fn acknowledging_recovers_from_any_loss() {
    let head = "_handoff/gate/head.json";
    let torn = |text: &str| text.as_bytes()[..text.len() - 9].to_vec();
    let zeros = |text: &str| [text.as_bytes(), &[0; 300]].concat();
    let not_text = |text: &str| [text.as_bytes(), b"\xff\xfe\n"].concat();
    let ways: [(&str, &dyn Fn(&str) -> Vec<u8>); 4] = [
        ("whole", &|text| text.as_bytes().to_vec()),
        ("torn", &torn),
        ("zeros", &zeros),
        ("not text", &not_text),
    ];
    for (what, damage) in ways {
        for is_head_empty in [false, true] {
            let ws = TestWorkspace::new();
            ws.edit("src/a.py", &with_line(OLD));
            let whole = fs::read_to_string(log(&ws)).unwrap();
            fs::write(log(&ws), damage(&whole)).unwrap();
            if is_head_empty {
                ws.put(head, "");
            }
            let gate = Gate::open_unchecked(ws.path("")).unwrap();
            gate.acknowledge_loss("p").unwrap();
            gate.verify().unwrap();
            let last = gate.records().unwrap().pop().unwrap();
            assert_eq!(last.event, "loss_acknowledged", "{what}");
            let n_cut = last.more["cut_bytes"].as_u64().unwrap();
            assert_eq!(n_cut > 0, what != "whole", "{what}: {n_cut}");
            ws.edit("src/a.py", OLD);
        }
    }
}

/// The number of syncs per accepted draft must not grow, because syncs dominate the cost of a draft.
#[test]
fn accepting_a_draft_needs_fourteen_syncs() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let hooked = seen.clone();
    let hook = move |what: &'static str, path: &str| {
        if what.starts_with("sync ") {
            hooked.lock().unwrap().push(path.to_owned());
        }
    };
    let gate = Gate::open_with_hook(ws.path(""), hook).unwrap();
    let worker = gate.worker("w").unwrap();
    let draft = worker.request(&draft_gate::DraftRequest::edit("src/a.py", "t")).unwrap();
    worker.write(&draft.draft_path, OLD).unwrap();
    let set = worker.submit(&draft_gate::Submission::of(&draft, "x")).unwrap().set;
    assert_eq!(gate.judge(&set).unwrap().decision, draft_gate::Decision::Accept);
    let seen = seen.lock().unwrap();
    // A log line and `head.json` are synced for each of four events: requested, written, submitted and accepted.
    let count = |path: &str| seen.iter().filter(|it| *it == path).count();
    assert_eq!(count("_handoff/transition.ndjson"), 4, "{seen:?}");
    assert_eq!(count("_handoff/gate/head.json"), 4, "{seen:?}");
    // The other six syncs are those of the old content, the journal and the new file, each with its directory.
    assert_eq!(seen.len(), 8 + 6, "{seen:?}");
}

#[test]
fn corrupt_records_do_not_hide_others() {
    let ws = TestWorkspace::new();
    let waiting = ws.propose_deletion("src/a.py").set;
    for shelf in ["decided", "sets", "issued", "rejected"] {
        ws.put(&format!("_handoff/gate/{shelf}/00.json"), "");
    }
    ws.gate.prune().unwrap();
    assert_eq!(ws.gate.find_pending("").unwrap(), waiting);
}

/// Long log lines must be supported, such as those for many files with long paths and many findings.
#[test]
fn long_log_lines_are_supported() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let dir = format!("{0}/{0}/{0}/{0}/{0}", "x".repeat(180));
    let content = "x = 1  # TODO: y\n".repeat(25);
    let mut set = String::new();
    for at in 0..200 {
        let request = draft_gate::DraftRequest::create(&format!("{dir}/{at}{dir:.100}"), "t");
        let submission = draft_gate::Submission::of(&ws.draft(&request, &content), "x");
        let submission = if at < 199 { submission.more_to_come() } else { submission };
        set = worker.submit(&submission).unwrap().set;
    }
    let judgement = ws.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, draft_gate::Decision::Escalate);
    ws.gate.accept(&set, judgement.fingerprint, "p").unwrap();
    let longest = fs::read_to_string(log(&ws)).unwrap().lines().map(str::len).max().unwrap();
    assert!(longest > 200_000, "{longest}");
    ws.edit("src/a.py", &with_line(OLD));
    ws.gate.verify().unwrap();
}

/// Files must work even if their names are too long to be quoted completely in messages.
#[test]
fn files_with_long_names_are_written() {
    let ws = TestWorkspace::new();
    let path = format!("{}/{}.py", "x".repeat(240), "y".repeat(200));
    assert_eq!(ws.create(&path, "x = 1\n").decision, draft_gate::Decision::Accept);
    assert_eq!(ws.text(&path), "x = 1\n");
}
