//! Tests that verdicts are bound to the reviewed state, and that they are stored, undone and pruned.

use std::fs;

use draft_gate::{Decision, DraftRequest, Error, MessageKind, Submission};

use crate::support::{OLD, TestWorkspace, files, with_line};

const SEEN_BY_A_PERSON: &str = r#"{"draft_gate": {"preview": "always"}}"#;

#[test]
fn verdicts_apply_only_to_the_reviewed_state() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    let judgement = ws.edit("src/a.py", &with_line(OLD));
    ws.put("src/a.py", &OLD.replace("one", "ONE"));
    for error in [
        ws.gate.accept(&judgement.set, judgement.fingerprint, "p").unwrap_err(),
        ws.gate.reject(&judgement.set, judgement.fingerprint, "no", "p").unwrap_err(),
    ] {
        assert!(matches!(error, Error::StaleReview { .. }), "{error}");
    }
    // A new review shows the merge with the other program's change.
    let again = ws.gate.inspect(&judgement.set).unwrap();
    assert_ne!(again.fingerprint, judgement.fingerprint);
    ws.gate.accept(&again.set, again.fingerprint, "p").unwrap();
    assert_eq!(ws.text("src/a.py"), with_line(&OLD.replace("one", "ONE")));
    // Undoing the set restores what the other program wrote.
    ws.gate.undo(&again.set, "p").unwrap();
    assert_eq!(ws.text("src/a.py"), OLD.replace("one", "ONE"));
}

#[test]
fn rejected_drafts_can_be_restored() {
    let ws = TestWorkspace::with_contract(SEEN_BY_A_PERSON);
    let judgement = ws.edit("src/a.py", &with_line(OLD));
    ws.gate.reject(&judgement.set, judgement.fingerprint, "not\u{1b}[2J like this", "p").unwrap();
    assert_eq!(ws.text("src/a.py"), OLD);
    assert_eq!(files(&ws.path("_handoff/drafts")), Vec::<std::path::PathBuf>::new());
    let message = ws.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!(message.kind, MessageKind::DraftRejected);
    assert!(
        message.reason.starts_with("not") && !message.reason.contains('\u{1b}'),
        "{}",
        message.reason
    );

    let worker = ws.gate.worker("w").unwrap();
    let request = DraftRequest { restore: true, ..DraftRequest::edit("src/a.py", "t") };
    let draft = worker.request(&request).unwrap();
    assert_eq!(worker.read(&draft.draft_path).unwrap().content, with_line(OLD));
    // Other workers and other tasks have no draft to restore.
    assert!(ws.gate.worker("v").unwrap().request(&request).is_err());
    assert!(worker.request(&DraftRequest { task_id: "u".to_owned(), ..request }).is_err());
}

#[test]
fn amended_drafts_need_a_new_review() {
    let ws = TestWorkspace::new();
    let judgement = ws.edit("src/a.py", "gone\n");
    assert_eq!(judgement.decision, Decision::Escalate);
    let better = OLD.replace("six", "6");
    let amended =
        ws.gate.amend(&judgement.set, "src/a.py", &better, judgement.fingerprint, "p").unwrap();
    assert_ne!(amended.fingerprint, judgement.fingerprint);
    // The fingerprint from before the amendment is no longer valid.
    assert!(matches!(
        ws.gate.accept(&judgement.set, judgement.fingerprint, "p"),
        Err(Error::StaleReview { .. })
    ));
    ws.gate.accept(&judgement.set, amended.fingerprint, "p").unwrap();
    assert_eq!(ws.text("src/a.py"), better);
    assert_eq!(ws.count("amended"), 1);
}

#[test]
fn accepted_sets_can_be_undone_once_if_unchanged() {
    let ws = TestWorkspace::new();
    ws.put("src/gone.py", OLD);
    let worker = ws.gate.worker("w").unwrap();
    let edited = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    worker.submit(&Submission::of(&edited, "x").more_to_come()).unwrap();
    let made = ws.draft(&DraftRequest::create("src/new.py", "t"), "new\n");
    worker.submit(&Submission::of(&made, "x").more_to_come()).unwrap();
    let removed = worker.request(&DraftRequest::delete("src/gone.py", "t")).unwrap();
    let set = ws.submit(&removed).set;
    let fingerprint = ws.gate.judge(&set).unwrap().fingerprint;
    ws.gate.accept(&set, fingerprint, "p").unwrap();
    assert!(ws.path("src/new.py").exists() && !ws.path("src/gone.py").exists());

    ws.put("src/a.py", "edited since\n");
    assert!(matches!(ws.gate.undo(&set, "p"), Err(Error::CannotUndo { .. })));
    assert!(ws.path("src/new.py").exists(), "all or nothing");
    ws.put("src/a.py", &with_line(OLD));
    for wrong in ["", "zz"] {
        let error = ws.gate.undo(wrong, "p").unwrap_err();
        assert!(error.to_string().contains("`draft-gate log` lists decided sets"), "{error}");
    }
    ws.gate.undo(&set[..8], "p").unwrap();
    assert_eq!((ws.text("src/a.py"), ws.text("src/gone.py")), (OLD.to_owned(), OLD.to_owned()));
    assert!(!ws.path("src/new.py").exists());
    assert!(matches!(ws.gate.undo(&set, "p"), Err(Error::CannotUndo { .. })));
    ws.gate.verify().unwrap();
}

#[test]
fn decided_sets_are_pruned_and_pending_ones_are_not() {
    let ws = TestWorkspace::new();
    let accepted = ws.edit("src/a.py", &with_line(OLD)).set;
    ws.edit("src/a.py", &format!("{}open('/home/jo/x')\n", with_line(OLD)));
    let waiting = ws.propose_deletion("src/a.py");
    let open = ws.draft(&DraftRequest::create("src/open.py", "t"), "open\n");
    let later = seconds_now() + 10;

    let kept = ws.gate.prune().unwrap();
    assert_eq!((kept.decided, kept.rejected, kept.blobs, kept.abandoned), (0, 0, 0, 0));
    let worker = ws.gate.worker("w").unwrap();
    assert_eq!(worker.read(&open.draft_path).unwrap().content, "open\n");
    let pruned = ws.gate.prune_before(later).unwrap();
    assert_eq!((pruned.decided, pruned.rejected, pruned.abandoned), (2, 1, 1));
    assert!(pruned.blobs >= 2, "{pruned:?}");
    assert!(matches!(ws.gate.undo(&accepted, "p"), Err(Error::CannotUndo { .. })));
    // Drafts that were never submitted are pruned too, but escalated sets stay.
    assert!(matches!(worker.read(&open.draft_path), Err(Error::NotIssued { .. })));
    assert!(!ws.path(&open.draft_path).exists());
    ws.gate.accept(&waiting.set, waiting.fingerprint, "p").unwrap();
    ws.gate.verify().unwrap();
}

#[test]
fn workers_and_the_manager_receive_messages() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    ws.edit("src/a.py", OLD.replace("one", "/home/jo/x").as_str());
    ws.propose_deletion("src/a.py");
    let kinds =
        |messages: Vec<draft_gate::Message>| messages.iter().map(|it| it.kind).collect::<Vec<_>>();
    use MessageKind::{DraftAccepted, DraftEscalated, DraftReady, DraftRejected};
    let inbox = ws.gate.inbox("w", "t", None).unwrap();
    let after = inbox[0].message_id.clone();
    assert_eq!(
        kinds(inbox),
        [DraftReady, DraftAccepted, DraftReady, DraftRejected, DraftReady, DraftEscalated]
    );
    assert_eq!(
        kinds(ws.gate.inbox("w", "t", Some(&after)).unwrap()),
        [DraftAccepted, DraftReady, DraftRejected, DraftReady, DraftEscalated]
    );
    assert_eq!(
        kinds(ws.gate.manager_inbox().unwrap()),
        [DraftReady, DraftReady, DraftReady, DraftEscalated]
    );
    assert!(ws.gate.inbox("v", "t", None).unwrap().is_empty());
    assert!(ws.gate.inbox("../w", "t", None).is_err());
    // No combination of worker and task yields the manager's inbox.
    assert!(ws.gate.inbox("floor", "manager", None).unwrap().is_empty());
    // If a path is given as a task id, it is logged as a violation.
    assert!(ws.gate.inbox("w", "../../x", None).unwrap_err().is_violation());
    assert_eq!(ws.count("violation"), 1);
}

/// Messages must stay readable even for sets with thousands of findings.
#[test]
fn messages_are_bounded_and_pruned() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let content = "p = '/home/jo/x'\n".repeat(30);
    for at in 0..150 {
        let draft = ws.draft(&DraftRequest::create(&format!("src/{at}.py"), "t"), &content);
        worker.submit(&Submission::of(&draft, "x").more_to_come()).unwrap();
    }
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let judgement = ws.gate.judge(&set).unwrap();
    assert!(judgement.findings.len() > 3_000, "{}", judgement.findings.len());
    let message = ws.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!((message.kind, message.findings.len()), (MessageKind::DraftRejected, 50));
    assert_eq!(ws.gate.prune_before(seconds_now() + 10).unwrap().inboxes, 2);
    assert!(ws.gate.inbox("w", "t", None).unwrap().is_empty());
}

#[test]
fn statistics_are_computed_from_the_log() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", &with_line(OLD));
    ws.edit("src/a.py", &format!("{}open('/home/jo/x')\n", with_line(OLD)));
    ws.propose_deletion("src/a.py");
    let _ = ws.gate.worker("w").unwrap().read("../x");
    let _ = ws.gate.submit_text("w", "t", "no file in here");
    let stats = ws.gate.stats().unwrap();
    assert_eq!(
        (stats.requested, stats.submitted, stats.accepted, stats.rejected, stats.escalated),
        (3, 3, 1, 1, 1)
    );
    assert_eq!((stats.violations, stats.extraction_failed), (1, 1));
    assert_eq!(stats.rules["home-path"], 1);
    assert_eq!(stats.edit_millis.len(), 5);
    assert!(stats.to_string().contains("100.0 % of texts failed"), "{stats}");
}

#[test]
fn drafts_are_ignored_by_version_control() {
    let ws = TestWorkspace::new();
    assert_eq!(fs::read_to_string(ws.path("_handoff/.gitignore")).unwrap(), "drafts/\ngate/\n");
}

fn seconds_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}
