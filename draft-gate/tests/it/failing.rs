//! Tests of change sets that cannot be applied. None of their files may change, they must be escalated with the reason,
//! and other sets must not be affected.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use draft_gate::{Decision, Digest, DraftRequest, Error, Gate, Submission};

use crate::support::{OLD, TestWorkspace, files, with_line};

#[test]
fn sets_with_a_rejected_file_cannot_be_accepted() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let set = ws.submit_two_edits();
    let seen_whole = ws.gate.judge(&set).unwrap();
    ws.put(
        "_handoff/TASK_CONTRACT.json",
        r#"{"constraints": {"forbidden_paths": ["src/b.py"]}, "draft_gate": {"preview": "always"}}"#,
    );
    let seen = ws.gate.inspect(&set).unwrap();
    assert_ne!(seen.fingerprint, seen_whole.fingerprint);
    for error in [
        ws.gate.accept(&set, seen.fingerprint, "p").unwrap_err(),
        ws.gate.amend(&set, "src/a.py", "x\n", seen.fingerprint, "p").unwrap_err(),
    ] {
        assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
        assert!(error.to_string().contains("src/b.py"), "{error}");
    }
    assert_eq!((ws.text("src/a.py"), ws.text("src/b.py")), (OLD.to_owned(), OLD.to_owned()));
    ws.gate.reject(&set, seen.fingerprint, "no", "p").unwrap();
    assert_eq!(ws.gate.inspect(&set).unwrap().decision, Decision::Reject);
}

#[test]
fn files_that_clash_with_directories_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    for (one, other) in [("x", "x/y"), ("src/b.py", "src/B.py")] {
        let first = ws.draft(&DraftRequest::create(one, "t"), "1\n");
        let second = ws.draft(&DraftRequest::create(other, "t"), "2\n");
        worker.submit(&Submission::of(&first, "x").more_to_come()).unwrap();
        let judgement = ws.gate.judge(&ws.submit(&second).set).unwrap();
        assert_eq!(judgement.decision, Decision::Reject, "{one}");
        assert_eq!(judgement.findings[0].rule, "clash");
        assert!(!ws.path(one).exists() && !ws.path(other).exists());
    }
}

/// A set that cannot be applied must be escalated and must not block others. Here, a file is created at the last moment
/// in the place where the set needs a directory.
#[test]
fn sets_that_cannot_be_applied_are_escalated_and_block_no_others() {
    let ws = TestWorkspace::new();
    let bad = ws.submit(&ws.draft(&DraftRequest::create("deep/new.py", "t"), "x\n")).set;
    let good = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    ws.put("_handoff/gate/sets/00.json", "");
    let journal = ws.path(&format!("_handoff/gate/journal/{bad}.json"));
    let dir = ws.path("deep");
    let hook = move |what: &'static str, _: &str| {
        if what == "create a directory" && journal.exists() {
            fs::write(&dir, "a file\n").unwrap();
        }
    };
    let gate = Gate::open_with_hook(ws.path(""), hook).unwrap();
    let judged = gate.judge_all().unwrap();
    let of = |set: &str| &judged.iter().find(|it| it.0 == set).unwrap().1;
    assert!(matches!(of("00"), Err(Error::Corrupt { .. })));
    assert_eq!(of(&good).as_ref().unwrap().decision, Decision::Accept);
    let judgement = of(&bad).as_ref().unwrap();
    assert_eq!(
        (judgement.decision, judgement.findings[0].rule.as_str()),
        (Decision::Escalate, "apply")
    );
    // The cause of the failure is stored: a later review shows it even after the cause is removed.
    fs::remove_file(ws.path("deep")).unwrap();
    assert_eq!(gate.find_pending("").unwrap(), bad);
    let seen = gate.inspect(&bad).unwrap();
    assert_eq!(
        (seen.findings[0].rule.as_str(), seen.fingerprint),
        ("apply", judgement.fingerprint)
    );
    gate.reject(&bad, seen.fingerprint, "no", "p").unwrap();
    assert!(gate.pending().unwrap().is_empty());
}

/// A failed rollback must keep the journal and be reported. Here an applied file cannot be rolled back because its old
/// content is missing.
#[test]
fn failed_rollbacks_keep_the_journal_and_are_reported() {
    let ws = TestWorkspace::new();
    let set = ws.submit_two_edits();
    let blob = ws.path(&format!("_handoff/gate/blobs/{}", Digest::of(OLD.as_bytes())));
    let (file, gone) = (ws.path("src/a.py"), blob.clone());
    let n_exchanges = AtomicUsize::new(0);
    let hook = move |what: &'static str, _: &str| {
        if what == "exchange two files" && n_exchanges.fetch_add(1, Ordering::SeqCst) == 1 {
            fs::write(&file, "saved concurrently\n").unwrap();
            fs::remove_file(&gone).unwrap();
        }
    };
    let gate = Gate::open_with_hook(ws.path(""), hook).unwrap();
    let error = gate.judge(&set).unwrap_err();
    assert!(error.to_string().contains("`src/b.py` could not be rolled back"), "{error}");
    assert_eq!(ws.text("src/b.py"), with_line(OLD));
    assert_eq!(files(&ws.path("_handoff/gate/journal")).len(), 1);
    assert_eq!(ws.count("taken_back"), 0);
    // Once the content is restored, the next operation completes the rollback.
    fs::write(blob, OLD).unwrap();
    let again = Gate::open(ws.path("")).unwrap();
    assert_eq!(ws.text("src/b.py"), OLD);
    assert_eq!(ws.text("src/a.py"), "saved concurrently\n");
    assert_eq!(ws.count("taken_back"), 1);
    assert_eq!(again.judge(&set).unwrap().decision, Decision::Escalate);
}

/// If another program writes content that is not text, the gate must neither merge it nor show it as text.
#[test]
fn non_utf8_content_is_not_merged() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"on_conflict": "merge"}}"#);
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let theirs = [b"\xe9ne\n", &OLD.as_bytes()[4..]].concat();
    fs::write(ws.path("src/a.py"), &theirs).unwrap();
    let judgement = ws.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Escalate, "{:?}", judgement.findings);
    assert!(ws.gate.accept(&set, judgement.fingerprint, "p").is_err());
    assert_eq!(fs::read(ws.path("src/a.py")).unwrap(), theirs);
    ws.gate.reject(&set, judgement.fingerprint, "no", "p").unwrap();
}

/// The gate must not be blocked if the drafts directory is moved away while a decision is being executed.
#[test]
fn a_moved_drafts_directory_does_not_block_the_gate() {
    let ws = TestWorkspace::new();
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let drafts = ws.path("_handoff/drafts");
    fs::rename(&drafts, ws.path("_handoff/elsewhere")).unwrap();
    assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!(files(&ws.path("_handoff/gate/journal")).len(), 0);
    // The next operation creates the directory again.
    fs::rename(&drafts, ws.path("_handoff/elsewhere-too")).unwrap();
    assert_eq!(ws.edit("src/a.py", OLD).decision, Decision::Accept);
}

/// No draft may be added to a submitted set. A crash between the two writes of a submission leaves the incomplete set
/// next to the complete one.
#[test]
fn submitted_sets_are_not_extended() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let first = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    worker.submit(&Submission::of(&first, "x").more_to_come()).unwrap();
    let held = ws.path("_handoff/gate/sets/held.w.t.json");
    let copy = fs::read(&held).unwrap();
    let second = ws.draft(&DraftRequest::create("src/b.py", "t"), "b\n");
    let set = ws.submit(&second).set;
    for is_judged in [false, true] {
        fs::write(&held, &copy).unwrap();
        if is_judged {
            assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Accept);
        }
        let name = format!("src/c{is_judged}.py");
        let next = ws.submit(&ws.draft(&DraftRequest::create(&name, "t"), "c\n")).set;
        assert_ne!(next, set);
        assert_eq!(ws.gate.judge(&next).unwrap().decision, Decision::Accept);
        assert!(!held.exists());
    }
}

/// Letter-case collisions must be rejected in every component of a path, because on some systems such names are the
/// same file.
#[test]
fn case_collisions_are_rejected_in_every_component() {
    let ws = TestWorkspace::new();
    ws.put("pkg/init/x", "x\n");
    let worker = ws.gate.worker("w").unwrap();
    for path in ["pkg/Init/pkg", "Pkg/y", "pkg/init/X"] {
        let error = worker.request(&DraftRequest::create(path, "t")).unwrap_err();
        assert!(matches!(error, Error::NameCollision { .. }), "{path}: {error}");
    }
    worker.request(&DraftRequest::create("pkg/init/pkg", "t")).unwrap();
}

/// Changes to files that tools execute automatically must be escalated to a person.
#[test]
fn tool_configuration_is_escalated() {
    let ws = TestWorkspace::new();
    for path in [
        ".github/workflows/ci.yml", ".vscode/tasks.json", ".cargo/config.toml", "sub/.mcp.json",
        ".gitattributes", "AGENTS.md", "sub/CLAUDE.md", ".cursorrules", ".bashrc",
    ] {
        let judgement = ws.create(path, "x: 1\n");
        assert_eq!(judgement.decision, Decision::Escalate, "{path}");
        assert_eq!(judgement.findings[0].rule, "tool-configuration", "{path}");
    }
    assert_eq!(ws.create("github/ci.yml", "x: 1\n").decision, Decision::Accept);
}

/// It must be possible to list, drop and eventually prune an incomplete set that a crashed worker left.
#[test]
fn incomplete_sets_can_be_dropped() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let hold = || {
        let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
        let submitted = worker.submit(&Submission::of(&draft, "x").more_to_come()).unwrap();
        assert_eq!((submitted.is_complete, submitted.message_id), (false, None));
        submitted.set
    };
    let set = hold();
    let held = ws.gate.incomplete().unwrap();
    assert_eq!((held.len(), held[0].set.as_str()), (1, set.as_str()));
    assert!(matches!(ws.gate.drop_incomplete("zz", "p"), Err(Error::UnknownSet { .. })));
    assert_eq!(ws.gate.drop_incomplete(&set[..4], "p").unwrap(), set);
    assert!(ws.gate.incomplete().unwrap().is_empty());
    let message = ws.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!(message.kind, draft_gate::MessageKind::DraftRejected);
    // The drafts can be requested again, and their content can be restored.
    let restore = DraftRequest { restore: true, ..DraftRequest::edit("src/a.py", "t") };
    let draft = worker.request(&restore).unwrap();
    assert_eq!(worker.read(&draft.draft_path).unwrap().content, with_line(OLD));

    let second = hold();
    assert_ne!(second, set);
    assert_eq!(ws.gate.prune().unwrap().abandoned, 0);
    assert_eq!(ws.gate.prune_before(i64::MAX).unwrap().abandoned, 1);
    assert!(ws.gate.incomplete().unwrap().is_empty());
    assert_eq!(ws.edit("src/a.py", &with_line(OLD)).decision, Decision::Accept);
}

/// The size of a set and the number of undecided drafts per worker must be bounded.
#[test]
fn set_size_and_open_drafts_are_limited() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"max_draft_bytes": 9000000}}"#);
    let worker = ws.gate.worker("w").unwrap();
    let large = "x\n".repeat(4_200_000);
    let one = ws.draft(&DraftRequest::create("src/1.py", "t"), &large);
    worker.submit(&Submission::of(&one, "x").more_to_come()).unwrap();
    let two = ws.draft(&DraftRequest::create("src/2.py", "t"), &large);
    let error = worker.submit(&Submission::of(&two, "x")).unwrap_err();
    assert!(error.to_string().contains("submit several sets"), "{error}");
    ws.gate.drop_incomplete("", "p").unwrap();

    let mut n_open = 1;
    while worker.request(&DraftRequest::create(&format!("src/n{n_open}.py"), "u")).is_ok() {
        n_open += 1;
        assert!(n_open <= 500);
    }
    assert_eq!(n_open, 500);
    // Undecided drafts can be requested again, and other workers have their own quota.
    worker.request(&DraftRequest::create("src/n1.py", "u")).unwrap();
    ws.gate.worker("v").unwrap().request(&DraftRequest::create("src/v.py", "u")).unwrap();
}

/// Directories that were created for a file must be removed with it, unless they contain other files.
#[test]
fn directories_created_for_a_file_are_removed_with_it() {
    let ws = TestWorkspace::new();
    for (is_used, is_left) in [(false, false), (true, true)] {
        let set = ws.create("deep/er/new.py", "x = 1\n").set;
        if is_used {
            ws.put("deep/mine.py", "mine\n");
        }
        ws.gate.undo(&set, "p").unwrap();
        assert_eq!(ws.path("deep").exists(), is_left);
        assert!(!ws.path("deep/er").exists());
    }
}

/// If a process dies between creating a directory and syncing its parent, recovery must sync the parent.
#[test]
fn directories_created_before_a_crash_are_synced() {
    let ws = TestWorkspace::new();
    let set = ws.submit(&ws.draft(&DraftRequest::create("deep/er/new.py", "t"), "x\n")).set;
    let dir = ws.path("deep");
    let dies = move |what: &'static str, path: &str| {
        if what == "sync a directory" && path.is_empty() && dir.exists() {
            std::panic::resume_unwind(Box::new("killed"));
        }
    };
    let judge = || Gate::open_with_hook(ws.path(""), dies).unwrap().judge(&set);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(judge)).is_err());
    assert!(ws.path("deep").exists() && !ws.path("deep/er").exists());
    let synced = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let seen = synced.clone();
    let watches = move |what: &'static str, path: &str| {
        if what == "sync a directory" {
            seen.lock().unwrap().push(path.to_owned());
        }
    };
    Gate::open_with_hook(ws.path(""), watches).unwrap();
    assert_eq!(ws.text("deep/er/new.py"), "x\n");
    let synced = synced.lock().unwrap();
    for dir in ["", "deep", "deep/er"] {
        assert!(synced.iter().any(|it| it == dir), "`{dir}` in {synced:?}");
    }
}

/// Violations that are detected only when a set is judged must be counted in the statistics too.
#[test]
fn violations_detected_at_judgement_are_counted() {
    let ws = TestWorkspace::new();
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    fs::remove_file(ws.path("src/a.py")).unwrap();
    std::os::unix::fs::symlink(ws.outside().join("a.py"), ws.path("src/a.py")).unwrap();
    assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Reject);
    assert_eq!(ws.gate.stats().unwrap().violations, 1);
    ws.check_outside();
}

#[test]
fn open_unchecked_does_not_create_a_missing_gate() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Gate::open_unchecked(dir.path()), Err(Error::NoGate { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
