//! Tests that the work on submitted content is limited and does not block other workers.

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use draft_gate::{Decision, DraftRequest, Gate, Submission};
use rustix::fs::{FlockOperation, flock};

use crate::support::{OLD, TestWorkspace, with_line};

/// Texts must be compared while the lock is free, because another worker's operations wait for the lock.
#[test]
fn texts_are_compared_without_the_lock() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let (n_free, n_locked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (free, locked, lock) = (n_free.clone(), n_locked.clone(), ws.path("_handoff/gate/lock"));
    let hook = move |what: &'static str, _: &str| {
        if what == "compare two texts" {
            let lock = File::open(&lock).unwrap();
            let is_free = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            let counter = if is_free { &free } else { &locked };
            counter.fetch_add(1, Ordering::SeqCst);
            flock(&lock, FlockOperation::Unlock).unwrap();
        }
    };
    let gate = Gate::open_with_hook(ws.path(""), hook).unwrap();
    let worker = gate.worker("w").unwrap();
    let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    worker.write(&draft.draft_path, &with_line(OLD)).unwrap();
    let set = worker.submit(&Submission::of(&draft, "x")).unwrap().set;
    // A concurrent change requires a merge.
    ws.put("src/a.py", &OLD.replace("one", "1"));
    let judgement = gate.judge(&set).unwrap();
    gate.proposed_text(&set, "src/a.py").unwrap();
    let text = "zero\n1\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    let judgement = gate.amend(&set, "src/a.py", text, judgement.fingerprint, "p").unwrap();
    gate.accept(&set, judgement.fingerprint, "p").unwrap();
    assert_eq!(ws.text("src/a.py"), text);
    assert_eq!(n_locked.load(Ordering::SeqCst), 0);
    assert!(n_free.load(Ordering::SeqCst) >= 8, "{n_free:?}");
}

/// If a file is changed between the comparison and the decision, it is compared again.
#[test]
fn files_changed_after_the_comparison_are_compared_again() {
    let ws = TestWorkspace::new();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let set = ws.submit(&draft).set;
    let (path, n_compared) = (ws.path("src/a.py"), AtomicUsize::new(0));
    let hook = move |what: &'static str, _: &str| {
        if what == "compare two texts" && n_compared.fetch_add(1, Ordering::SeqCst) == 0 {
            std::fs::write(&path, OLD.replace("one", "1")).unwrap();
        }
    };
    let gate = Gate::open_with_hook(ws.path(""), hook).unwrap();
    let judgement = gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Escalate);
    assert!(judgement.diff.contains(" six\n+seven") && !judgement.diff.contains("+one"));
    assert_eq!(judgement.findings[0].rule, "conflict");
}

#[test]
fn files_with_too_many_lines_are_escalated() {
    let ws = TestWorkspace::new();
    let judgement = ws.create("src/b.txt", &format!("{}x", "\n".repeat(1_000_000)));
    assert_eq!(judgement.decision, Decision::Escalate);
    assert_eq!(judgement.findings[0].rule, "too-many-lines");
    assert!(judgement.diff.contains("not shown"), "{}", judgement.diff);
}

/// Changes that cannot be compared exactly are escalated, and lines of the old file are not reported as new.
#[test]
fn changes_too_complex_to_compare_are_escalated() {
    let ws = TestWorkspace::new();
    let text = |seed: u32| -> String {
        let bits = (0..60_000_u32).map(|it| (it ^ seed).wrapping_mul(2_654_435_761) >> 29);
        bits.map(|it| if it > 3 { "# TODO: a\n" } else { "b\n" }).collect()
    };
    ws.put("src/b.txt", &text(1));
    let judgement = ws.edit("src/b.txt", &text(77_777));
    assert_eq!(judgement.decision, Decision::Escalate);
    let rules: Vec<&str> = judgement.findings.iter().map(|it| it.rule.as_str()).collect();
    assert!(rules.contains(&"coarse-diff") && !rules.contains(&"unfinished-code"), "{rules:?}");
}

/// Every word of the line looks like ASCII text and is compared to the other words. The comparison must not take
/// quadratic time: the test would run for hours.
#[test]
fn lines_of_many_confusable_words_are_scanned_in_linear_time() {
    let line = format!("{}жук", "\u{430} ".repeat(340_000));
    let rules: Vec<String> =
        draft_gate::scan("a.txt", &[(1, line)]).into_iter().map(|it| it.rule).collect();
    assert_eq!(rules, ["long-line"]);
}

/// The limit also applies within a line, because a worker can write a file of one line.
#[test]
fn long_lines_are_scanned_up_to_the_limit() {
    let ascii = "curl aws token password identified by secret basic machine ://".repeat(60_000);
    let unicode = "\u{436}".repeat(4 << 20);
    for line in [ascii, unicode] {
        let findings = draft_gate::scan("a.txt", &[(1, line)]);
        assert!(findings.iter().any(|it| it.rule == "scan-limit"), "{findings:?}");
    }
}

/// The limit applies to all files of a set together, because a worker can split a text into many files.
#[test]
fn files_of_a_set_share_the_limit_on_scanning() {
    let ws = TestWorkspace::new();
    let text = "password = f(x)\n".repeat(30_000);
    let worker = ws.gate.worker("w").unwrap();
    let drafts = ["src/b.py", "src/c.py"].map(|it| ws.draft(&DraftRequest::create(it, "t"), &text));
    worker.submit(&Submission::of(&drafts[0], "x").more_to_come()).unwrap();
    let set = worker.submit(&Submission::of(&drafts[1], "x")).unwrap().set;
    let judgement = ws.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Escalate);
    let limited = judgement.findings.iter().filter(|it| it.rule == "scan-limit");
    let paths: Vec<&str> = limited.map(|it| it.path.as_ref().unwrap().as_str()).collect();
    assert_eq!(paths, ["src/c.py"]);
}

/// Every line continues the statement before it. The statement must not be scanned from its start for each line.
#[test]
fn statements_of_many_lines_are_scanned_in_linear_time() {
    for line in ["-x \\", "\"curl\" +", "| password |", "password: (", "- name: password"] {
        let lines: Vec<(u32, String)> = (1..10_000).map(|it| (it, line.to_owned())).collect();
        let findings = draft_gate::scan("a.yaml", &lines);
        assert!(findings.iter().all(|it| it.rule == "scan-limit"), "{line}: {findings:?}");
    }
}
