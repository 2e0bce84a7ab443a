//! Tests of what the gate accepts, rejects and escalates.

use draft_gate::{Decision, DraftRequest, Error, Judgement, Operation, Submission};

use crate::support::{OLD, TestWorkspace, with_line};

/// Checks the decision, and the rule that produced the first finding.
#[track_caller]
fn check(judgement: &Judgement, decision: Decision, rule: &str) {
    let first = judgement.findings.first().map_or("", |it| it.rule.as_str());
    assert_eq!((judgement.decision, first), (decision, rule), "{:?}", judgement.findings);
}

#[test]
fn small_safe_changes_are_applied() {
    let ws = TestWorkspace::new();
    check(&ws.edit("src/a.py", &with_line(OLD)), Decision::Accept, "");
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
    assert!(!ws.path("_handoff/drafts/a.py.t.draft").exists());
    assert!(!ws.path("_handoff/drafts/t.submission.json").exists());
}

#[test]
fn secrets_and_paths_are_detected_only_in_added_lines() {
    let key = format!("AKIA{}", "Z7QXW2LMN4PRSTVB");
    let ws = TestWorkspace::new();
    let judgement = ws.edit("src/a.py", &format!("{OLD}key = '{key}'\n"));
    check(&judgement, Decision::Reject, "aws-access-key");
    assert_eq!(
        (judgement.findings[0].line, judgement.findings[0].path.as_ref().unwrap().as_str()),
        (Some(7), "src/a.py")
    );
    assert!(!format!("{:?}", judgement.findings).contains(&key), "a finding contains the secret");
    let log = std::fs::read_to_string(ws.path("_handoff/transition.ndjson")).unwrap();
    assert!(!log.contains(&key));
    // Lines that already exist are not attributed to the worker.
    ws.put("src/b.py", &format!("key = '{key}'\nb\nc\n"));
    check(&ws.edit("src/b.py", &format!("key = '{key}'\nb\nc\nd\n")), Decision::Accept, "");
    check(
        &ws.edit("src/a.py", &format!("{OLD}open('/home/jo/x')\n")),
        Decision::Reject,
        "home-path",
    );
}

/// A summary with a secret must be rejected, because summaries are shown in inboxes and lists.
#[test]
fn summaries_with_secrets_are_rejected() {
    let key = format!("AKIA{}", "Z7QXW2LMN4PRSTVB");
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let summary = format!("uses the new key\n{key}");
    let error = worker.submit(&Submission::of(&draft, &summary)).unwrap_err();
    assert!(error.to_string().contains("describe the change without it"), "{error}");
    for file in crate::support::files(&ws.path("_handoff")) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains(&key), "{}", file.display());
    }
    assert!(ws.submit(&draft).is_complete);
}

/// A line with the comment `draft-gate:allow` must be escalated, not accepted, because workers can write this comment
/// too.
#[test]
fn lines_that_request_an_exception_are_escalated() {
    let ws = TestWorkspace::new();
    let judgement = ws.edit("src/a.py", &format!("{OLD}open('/home/jo/x')  # draft-gate:allow\n"));
    check(&judgement, Decision::Escalate, "home-path");
}

#[test]
fn placeholders_stubs_and_empty_drafts_are_not_accepted() {
    let ws = TestWorkspace::new();
    check(
        &ws.edit("src/a.py", &format!("{OLD}# ... rest of the code unchanged ...\n")),
        Decision::Reject,
        "elided-code",
    );
    check(
        &ws.edit("src/a.py", &format!("{OLD}<paste the full file here>\n")),
        Decision::Reject,
        "paste-marker",
    );
    check(
        &ws.edit("src/a.py", &format!("{OLD}raise NotImplementedError\n")),
        Decision::Escalate,
        "unfinished-code",
    );
    ws.put("src/b.py", OLD);
    check(&ws.edit("src/b.py", "\n"), Decision::Reject, "empty-draft");
    check(&ws.edit("src/b.py", OLD), Decision::Reject, "no-change");
}

#[test]
fn large_changes_are_escalated() {
    let ws = TestWorkspace::new();
    check(&ws.edit("src/a.py", "one\ntwo\nthree\nx\ny\nz\n"), Decision::Accept, "");
    ws.put("src/b.py", OLD);
    check(&ws.edit("src/b.py", "one\ntwo\nx\ny\nz\nz\n"), Decision::Escalate, "deletion-ratio");
    ws.put("src/c.py", OLD);
    let long: String = (0..501).map(|it| format!("line {it}\n")).collect();
    check(&ws.edit("src/c.py", &format!("{OLD}{long}")), Decision::Escalate, "scope");
    ws.put("src/d.py", OLD);
    check(&ws.edit("src/d.py", &OLD.replace('\n', "\r\n")), Decision::Escalate, "line-ends");
    ws.put("src/e.py", OLD);
    check(
        &ws.edit("src/e.py", &format!("{OLD}if admin\u{202e}:\n")),
        Decision::Escalate,
        "hidden-characters",
    );
}

#[test]
fn new_files_are_accepted_and_deletions_escalated() {
    let ws = TestWorkspace::new();
    check(&ws.create("deep/er/new.py", "x = 1\n"), Decision::Accept, "");
    assert_eq!(ws.text("deep/er/new.py"), "x = 1\n");
    check(&ws.propose_deletion("src/a.py"), Decision::Escalate, "deletion");
    assert_eq!(ws.text("src/a.py"), OLD);
    let worker = ws.gate.worker("w").unwrap();
    // Setting the field `create` has the same effect as the operation `create`.
    let request = DraftRequest { create: true, ..DraftRequest::edit("deep/too.py", "t") };
    let draft = worker.request(&request).unwrap();
    assert_eq!(draft.original_hash, "absent");
    let both = DraftRequest { create: true, ..DraftRequest::delete("src/a.py", "u") };
    assert!(matches!(worker.request(&both), Err(Error::NotAllowed { .. })));
    assert!(matches!(
        worker.request(&DraftRequest::create("deep/er/new.py", "u")),
        Err(Error::Exists { .. })
    ));
    assert!(matches!(
        worker.request(&DraftRequest::edit("nowhere.py", "u")),
        Err(Error::Missing { .. })
    ));
    assert!(matches!(
        worker.request(&DraftRequest::delete("nowhere.py", "u")),
        Err(Error::Missing { .. })
    ));
}

#[test]
fn limits_of_the_contract_apply() {
    let ws = TestWorkspace::with_contract(
        r#"{"status": "open",
            "constraints": {"allowed_paths": ["src", "docs/*.md"], "forbidden_paths": ["src/core"], "delete_allowed": false,
                            "max_diff_lines": 2},
            "draft_gate": {"max_deletion_ratio": 0.1, "max_draft_bytes": 200, "max_files": 1}}"#,
    );
    let worker = ws.gate.worker("w").unwrap();
    for (path, operation) in [
        ("lib/x.py", Operation::Create),
        ("src/core/x.py", Operation::Create),
        ("docs/x.py", Operation::Create),
        ("src/a.py", Operation::Delete),
    ] {
        let request = DraftRequest { operation, ..DraftRequest::edit(path, "t") };
        assert!(matches!(worker.request(&request), Err(Error::NotAllowed { .. })), "{path}");
    }
    check(&ws.create("docs/x.md", "x\n"), Decision::Accept, "");
    check(&ws.edit("src/a.py", &with_line(OLD)), Decision::Accept, "");
    check(&ws.edit("src/a.py", &OLD.replace("one", "1")), Decision::Escalate, "deletion-ratio");
    check(&ws.create("src/b.py", "1\n2\n3\n"), Decision::Escalate, "scope");
    let draft = worker.request(&DraftRequest::create("src/c.py", "t")).unwrap();
    assert!(matches!(
        worker.write(&draft.draft_path, &"x".repeat(201)),
        Err(Error::TooLarge { .. })
    ));
    // The contract at the time of the judgement applies, not the one at the time of the request.
    let set = ws.submit(&ws.draft(&DraftRequest::create("src/d.py", "t"), "d\n")).set;
    ws.put("_handoff/TASK_CONTRACT.json", r#"{"constraints": {"forbidden_paths": ["src"]}}"#);
    check(&ws.gate.judge(&set).unwrap(), Decision::Reject, "original");
    // Nothing is accepted while the contract is invalid.
    ws.put("_handoff/TASK_CONTRACT.json", r#"{"constraints": {"forbidden": []}}"#);
    assert!(matches!(
        worker.request(&DraftRequest::create("x.py", "t")),
        Err(Error::InvalidContract(_))
    ));
}

#[test]
fn concurrent_changes_follow_the_conflict_setting() {
    let (theirs, ours) = (OLD.replace("one", "ONE"), OLD.replace("six", "SIX"));
    let merged = theirs.replace("six", "SIX");
    for (rule, clash, decision, text) in [
        ("escalate", false, Decision::Escalate, &theirs),
        ("merge", false, Decision::Accept, &merged),
        ("merge", true, Decision::Escalate, &OLD.replace("six", "6")),
        ("reject", false, Decision::Reject, &theirs),
    ] {
        let ws = TestWorkspace::with_contract(&format!(
            r#"{{"draft_gate": {{"on_conflict": "{rule}"}}}}"#
        ));
        let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &ours);
        // Change the file between request and submission. This is a conflict, because a draft is based on the file as
        // it was when the draft was requested.
        let meanwhile = if clash { OLD.replace("six", "6") } else { theirs.clone() };
        ws.put("src/a.py", &meanwhile);
        let judgement = ws.gate.judge(&ws.submit(&draft).set).unwrap();
        check(&judgement, decision, "conflict");
        assert_eq!(&ws.text("src/a.py"), text, "{rule}");
    }
}

#[test]
fn concurrently_created_or_removed_files_are_conflicts() {
    let ws = TestWorkspace::new();
    let set = ws.submit(&ws.draft(&DraftRequest::create("src/b.py", "t"), "mine\n")).set;
    ws.put("src/b.py", "theirs\n");
    check(&ws.gate.judge(&set).unwrap(), Decision::Escalate, "conflict");
    assert_eq!(ws.text("src/b.py"), "theirs\n");
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    std::fs::remove_file(ws.path("src/a.py")).unwrap();
    check(&ws.gate.judge(&set).unwrap(), Decision::Escalate, "conflict");
    assert!(!ws.path("src/a.py").exists());
}

#[test]
fn several_files_form_one_change_set() {
    let ws = TestWorkspace::new();
    ws.put("src/b.py", OLD);
    let worker = ws.gate.worker("w").unwrap();
    let hand_in = |task: &str, second: &str| {
        let one = ws.draft(&DraftRequest::edit("src/a.py", task), &with_line(&ws.text("src/a.py")));
        let first = worker.submit(&Submission::of(&one, "x").more_to_come()).unwrap();
        assert!(!first.is_complete);
        assert!(matches!(ws.gate.judge(&first.set), Err(Error::UnknownSet { .. })));
        let two = ws.draft(&DraftRequest::edit("src/b.py", task), second);
        let last = worker.submit(&Submission::of(&two, "x")).unwrap();
        assert_eq!((last.set.as_str(), last.is_complete), (first.set.as_str(), true));
        ws.gate.judge(&last.set).unwrap()
    };
    let bad = hand_in("t", &format!("{OLD}open('/home/jo/x')\n"));
    check(&bad, Decision::Reject, "home-path");
    assert_eq!((ws.text("src/a.py"), ws.text("src/b.py")), (OLD.to_owned(), OLD.to_owned()));
    let good = hand_in("u", &with_line(OLD));
    check(&good, Decision::Accept, "");
    assert_eq!((ws.text("src/a.py"), ws.text("src/b.py")), (with_line(OLD), with_line(OLD)));
    assert!(good.diff.contains("b/src/a.py") && good.diff.contains("b/src/b.py"));
}

#[test]
fn the_preview_setting_applies() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    check(&ws.edit("src/a.py", &with_line(OLD)), Decision::Escalate, "preview");
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "never"}}"#);
    check(&ws.propose_deletion("src/a.py"), Decision::Reject, "deletion");
}

/// If another program saves the file between the last read and the exchange, that program's version must be restored.
#[test]
fn concurrent_edits_are_restored() {
    let ws = TestWorkspace::new();
    let set = ws.submit_two_edits();
    let file = ws.path("src/a.py");
    let n_exchanges = std::sync::atomic::AtomicUsize::new(0);
    let hook = move |what: &'static str, _: &str| {
        let is_exchange = what == "exchange two files";
        if is_exchange && n_exchanges.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
            std::fs::write(&file, "saved concurrently\n").unwrap();
        }
    };
    let gate = draft_gate::Gate::open_with_hook(ws.path(""), hook).unwrap();
    check(&gate.judge(&set).unwrap(), Decision::Escalate, "conflict");
    assert_eq!(ws.text("src/a.py"), "saved concurrently\n");
    // The other file in the set was already applied and is rolled back.
    assert_eq!(ws.text("src/b.py"), OLD);
    assert_eq!(ws.count("taken_back"), 1);
}

/// Nothing may be lost if another program saves concurrently, and then saves again or removes the file while the first
/// save is being restored.
#[test]
fn saves_during_the_restore_are_kept() {
    for second in [Some("second save\n"), None] {
        let ws = TestWorkspace::new();
        let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
        // The same content was already stored long ago. Its retention period must start again.
        let stored = draft_gate::Digest::of(b"first save\n").to_string();
        ws.put(&format!("_handoff/gate/blobs/{stored}"), "first save\n");
        let stored =
            std::fs::File::open(ws.path(&format!("_handoff/gate/blobs/{stored}"))).unwrap();
        stored.set_modified(std::time::UNIX_EPOCH).unwrap();
        let (file, other) = (ws.path("src/a.py"), ws.path("src/.a.py.editor"));
        let n_exchanges = std::sync::atomic::AtomicUsize::new(0);
        let hook = move |what: &'static str, _: &str| {
            if what != "exchange two files" {
                return;
            }
            match (n_exchanges.fetch_add(1, std::sync::atomic::Ordering::SeqCst), second) {
                (0, _) => std::fs::write(&file, "first save\n").unwrap(),
                (1, Some(second)) => {
                    std::fs::write(&other, second).unwrap();
                    std::fs::rename(&other, &file).unwrap();
                }
                (1, None) => std::fs::remove_file(&file).unwrap(),
                _ => {}
            }
        };
        let gate = draft_gate::Gate::open_with_hook(ws.path(""), hook).unwrap();
        check(&gate.judge(&set).unwrap(), Decision::Escalate, "conflict");
        assert_eq!(std::fs::read_to_string(ws.path("src/a.py")).ok().as_deref(), second);
        let kept = gate.records().unwrap().into_iter().find(|it| it.event == "kept_aside").unwrap();
        gate.prune().unwrap();
        assert_eq!(ws.text(kept.more["kept_as"].as_str().unwrap()), "first save\n");
        let n_left = crate::support::files(&ws.path("src")).len();
        assert_eq!(n_left, usize::from(second.is_some()));
    }
}

/// A program that saves a file continuously must not make the gate loop forever.
#[test]
fn files_that_keep_changing_are_escalated() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"on_conflict": "merge"}}"#);
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let file = ws.path("src/a.py");
    let n_saves = std::sync::atomic::AtomicUsize::new(0);
    let hook = move |what: &'static str, path: &str| {
        if what == "exchange two files" && path == "src/a.py" {
            let number = n_saves.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::fs::write(&file, OLD.replace("one", &format!("one {number}"))).unwrap();
        }
    };
    let gate = draft_gate::Gate::open_with_hook(ws.path(""), hook).unwrap();
    check(&gate.judge(&set).unwrap(), Decision::Escalate, "unsettled");
    assert!(ws.text("src/a.py").starts_with("one "), "{}", ws.text("src/a.py"));
}
