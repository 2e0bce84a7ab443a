//! Verdicts of people: bound to what was seen, kept, taken back, forgotten after a while.

use std::fs;

use draft_gate::{Decision, Error, MessageKind, Request, Submission};

use crate::support::{OLD, Place, files, with_line};

const SEEN_BY_A_PERSON: &str = r#"{"draft_gate": {"preview": "always"}}"#;

#[test]
fn a_verdict_counts_for_what_was_seen() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    let judgement = place.edit("src/a.py", &with_line(OLD));
    place.put("src/a.py", &OLD.replace("one", "ONE"));
    for error in [
        place.gate.accept(&judgement.set, judgement.sight, "p").unwrap_err(),
        place.gate.reject(&judgement.set, judgement.sight, "no", "p").unwrap_err(),
    ] {
        assert!(matches!(error, Error::SightChanged { .. }), "{error}");
    }
    // Looked at again, it is a merge.
    let again = place.gate.look(&judgement.set).unwrap();
    assert_ne!(again.sight, judgement.sight);
    place.gate.accept(&again.set, again.sight, "p").unwrap();
    assert_eq!(place.text("src/a.py"), with_line(&OLD.replace("one", "ONE")));
    // To undo it is to bring back what somebody else wrote.
    place.gate.undo(&again.set, "p").unwrap();
    assert_eq!(place.text("src/a.py"), OLD.replace("one", "ONE"));
}

#[test]
fn a_rejected_draft_can_be_taken_up_again() {
    let place = Place::with_contract(SEEN_BY_A_PERSON);
    let judgement = place.edit("src/a.py", &with_line(OLD));
    place.gate.reject(&judgement.set, judgement.sight, "not\u{1b}[2J like this", "p").unwrap();
    assert_eq!(place.text("src/a.py"), OLD);
    assert_eq!(files(&place.path("_handoff/drafts")), Vec::<std::path::PathBuf>::new());
    let message = place.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!(message.kind, MessageKind::DraftRejected);
    assert!(
        message.reason.starts_with("not") && !message.reason.contains('\u{1b}'),
        "{}",
        message.reason
    );

    let worker = place.gate.worker("w").unwrap();
    let request = Request { restore: true, ..Request::edit("src/a.py", "t") };
    let draft = worker.request(&request).unwrap();
    assert_eq!(worker.read(&draft.draft_path).unwrap().content, with_line(OLD));
    // Of another worker or task there is nothing to take up.
    assert!(place.gate.worker("v").unwrap().request(&request).is_err());
    assert!(worker.request(&Request { task_id: "u".to_owned(), ..request }).is_err());
}

#[test]
fn a_person_amends() {
    let place = Place::new();
    let judgement = place.edit("src/a.py", "gone\n");
    assert_eq!(judgement.decision, Decision::Escalate);
    let better = OLD.replace("six", "6");
    let amended =
        place.gate.amend(&judgement.set, "src/a.py", &better, judgement.sight, "p").unwrap();
    assert_ne!(amended.sight, judgement.sight);
    // What was seen before the amendment is not what is accepted now.
    assert!(matches!(
        place.gate.accept(&judgement.set, judgement.sight, "p"),
        Err(Error::SightChanged { .. })
    ));
    place.gate.accept(&judgement.set, amended.sight, "p").unwrap();
    assert_eq!(place.text("src/a.py"), better);
    assert_eq!(place.count("amended"), 1);
}

#[test]
fn an_accepted_set_is_undone_once_and_only_as_it_was_left() {
    let place = Place::new();
    place.put("src/gone.py", OLD);
    let worker = place.gate.worker("w").unwrap();
    let edited = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    worker.submit(&Submission::of(&edited, "x").more_to_come()).unwrap();
    let made = place.draft(&Request::create("src/new.py", "t"), "new\n");
    worker.submit(&Submission::of(&made, "x").more_to_come()).unwrap();
    let removed = worker.request(&Request::delete("src/gone.py", "t")).unwrap();
    let set = place.submit(&removed).set;
    let sight = place.gate.judge(&set).unwrap().sight;
    place.gate.accept(&set, sight, "p").unwrap();
    assert!(place.path("src/new.py").exists() && !place.path("src/gone.py").exists());

    place.put("src/a.py", "edited since\n");
    assert!(matches!(place.gate.undo(&set, "p"), Err(Error::NoUndo { .. })));
    assert!(place.path("src/new.py").exists(), "all or nothing");
    place.put("src/a.py", &with_line(OLD));
    for wrong in ["", "zz"] {
        let error = place.gate.undo(wrong, "p").unwrap_err();
        assert!(error.to_string().contains("`draft-gate log` lists those"), "{error}");
    }
    place.gate.undo(&set[..8], "p").unwrap();
    assert_eq!(
        (place.text("src/a.py"), place.text("src/gone.py")),
        (OLD.to_owned(), OLD.to_owned())
    );
    assert!(!place.path("src/new.py").exists());
    assert!(matches!(place.gate.undo(&set, "p"), Err(Error::NoUndo { .. })));
    place.gate.verify().unwrap();
}

#[test]
fn what_is_decided_is_forgotten_and_what_waits_is_not() {
    let place = Place::new();
    let accepted = place.edit("src/a.py", &with_line(OLD)).set;
    place.edit("src/a.py", &format!("{}open('/home/jo/x')\n", with_line(OLD)));
    let waiting = place.propose_deletion("src/a.py");
    let open = place.draft(&Request::create("src/open.py", "t"), "open\n");
    let later = seconds_now() + 10;

    let kept = place.gate.prune().unwrap();
    assert_eq!((kept.decided, kept.rejected, kept.blobs, kept.abandoned), (0, 0, 0, 0));
    let worker = place.gate.worker("w").unwrap();
    assert_eq!(worker.read(&open.draft_path).unwrap().content, "open\n");
    let pruned = place.gate.prune_before(later).unwrap();
    assert_eq!((pruned.decided, pruned.rejected, pruned.abandoned), (2, 1, 1));
    assert!(pruned.blobs >= 2, "{pruned:?}");
    assert!(matches!(place.gate.undo(&accepted, "p"), Err(Error::NoUndo { .. })));
    // A draft that was never submitted goes as well; what waits for a person stays.
    assert!(matches!(worker.read(&open.draft_path), Err(Error::NotIssued { .. })));
    assert!(!place.path(&open.draft_path).exists());
    place.gate.accept(&waiting.set, waiting.sight, "p").unwrap();
    place.gate.verify().unwrap();
}

#[test]
fn messages() {
    let place = Place::new();
    place.edit("src/a.py", &with_line(OLD));
    place.edit("src/a.py", OLD.replace("one", "/home/jo/x").as_str());
    place.propose_deletion("src/a.py");
    let kinds =
        |messages: Vec<draft_gate::Message>| messages.iter().map(|it| it.kind).collect::<Vec<_>>();
    use MessageKind::{DraftAccepted, DraftEscalated, DraftReady, DraftRejected};
    let inbox = place.gate.inbox("w", "t", None).unwrap();
    let after = inbox[0].message_id.clone();
    assert_eq!(
        kinds(inbox),
        [DraftReady, DraftAccepted, DraftReady, DraftRejected, DraftReady, DraftEscalated]
    );
    assert_eq!(
        kinds(place.gate.inbox("w", "t", Some(&after)).unwrap()),
        [DraftAccepted, DraftReady, DraftRejected, DraftReady, DraftEscalated]
    );
    assert_eq!(
        kinds(place.gate.manager_inbox().unwrap()),
        [DraftReady, DraftReady, DraftReady, DraftEscalated]
    );
    assert!(place.gate.inbox("v", "t", None).unwrap().is_empty());
    assert!(place.gate.inbox("../w", "t", None).is_err());
    // A worker's name and task cannot be chosen so that they are the manager's inbox.
    assert!(place.gate.inbox("floor", "manager", None).unwrap().is_empty());
    // A path in place of a task is an attempt, and counted.
    assert!(place.gate.inbox("w", "../../x", None).unwrap_err().is_violation());
    assert_eq!(place.count("violation"), 1);
}

/// A set with thousands of findings is told in a message that can be read.
#[test]
fn messages_are_bounded_and_forgotten() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let content = "p = '/home/jo/x'\n".repeat(30);
    for at in 0..150 {
        let draft = place.draft(&Request::create(&format!("src/{at}.py"), "t"), &content);
        worker.submit(&Submission::of(&draft, "x").more_to_come()).unwrap();
    }
    let set = place.submit(&place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD))).set;
    let judgement = place.gate.judge(&set).unwrap();
    assert!(judgement.findings.len() > 3_000, "{}", judgement.findings.len());
    let message = place.gate.inbox("w", "t", None).unwrap().pop().unwrap();
    assert_eq!((message.kind, message.findings.len()), (MessageKind::DraftRejected, 50));
    assert_eq!(place.gate.prune_before(seconds_now() + 10).unwrap().inboxes, 2);
    assert!(place.gate.inbox("w", "t", None).unwrap().is_empty());
}

#[test]
fn numbers() {
    let place = Place::new();
    place.edit("src/a.py", &with_line(OLD));
    place.edit("src/a.py", &format!("{}open('/home/jo/x')\n", with_line(OLD)));
    place.propose_deletion("src/a.py");
    let _ = place.gate.worker("w").unwrap().read("../x");
    let _ = place.gate.submit_text("w", "t", "no file in here");
    let stats = place.gate.stats().unwrap();
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
fn drafts_are_not_for_version_control() {
    let place = Place::new();
    assert_eq!(fs::read_to_string(place.path("_handoff/.gitignore")).unwrap(), "drafts/\ngate/\n");
}

fn seconds_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}
