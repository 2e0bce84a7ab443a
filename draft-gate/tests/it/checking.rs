//! Tests of project checks. Their findings are stored with the set, and the checks run again after changes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use draft_gate::{
    Check, CheckOutcome, Decision, DraftRequest, Error, Gate, Judgement, ProjectChecks, ProjectFile,
};

use crate::support::{OLD, TestWorkspace, with_line};

const CHECKED: &str =
    r#"{"draft_gate": {"preview": "always", "checks": [{"name": "tests", "program": "true"}]}}"#;

/// A check that fails if a file contains `wrong`. It counts its runs.
#[derive(Debug, Default)]
struct NothingWrong(Arc<AtomicUsize>);

impl ProjectChecks for NothingWrong {
    fn run(&self, _check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let is_wrong = |it: &ProjectFile| String::from_utf8_lossy(&it.bytes).contains("wrong");
        let passed = !files.iter().any(is_wrong);
        Ok(CheckOutcome { passed, output: "something is wrong".to_owned() })
    }
}

fn rules(judgement: &Judgement) -> Vec<&str> {
    judgement.findings.iter().map(|it| it.rule.as_str()).collect()
}

#[test]
fn findings_of_checks_are_shown_to_the_reviewer() {
    let contract = r#"{"draft_gate": {"checks": [{"name": "tests", "program": "true"}]}}"#;
    let ws = TestWorkspace::with_contract(contract);
    let judgement = ws.edit("src/a.py", &with_line(OLD));
    assert_eq!((judgement.decision, rules(&judgement)), (Decision::Escalate, vec!["checks"]));
    let seen = ws.gate.inspect(&judgement.set).unwrap();
    assert_eq!((rules(&seen), seen.fingerprint), (vec!["checks"], judgement.fingerprint));
    assert_eq!(seen.findings, judgement.findings);
}

#[test]
fn checks_run_again_after_amendments_and_merges() {
    let ws = TestWorkspace::with_contract(CHECKED);
    let n_runs = Arc::new(AtomicUsize::new(0));
    let checks = NothingWrong(n_runs.clone());
    let gate = Gate::open(ws.path("")).unwrap().with_checks(checks);
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let judgement = gate.judge(&set).unwrap();
    assert_eq!((rules(&judgement), n_runs.load(Ordering::SeqCst)), (vec!["preview"], 1));
    // Nothing has changed, so the checks do not run again.
    gate.inspect(&set).unwrap();
    assert_eq!(n_runs.load(Ordering::SeqCst), 1);

    let amended =
        gate.amend(&set, "src/a.py", &format!("{OLD}wrong\n"), judgement.fingerprint, "p").unwrap();
    assert_eq!((rules(&amended), n_runs.load(Ordering::SeqCst)), (vec!["checks", "preview"], 2));
    assert!(amended.findings[0].text.contains("something is wrong"));
    let good = gate.amend(&set, "src/a.py", &with_line(OLD), amended.fingerprint, "p").unwrap();
    assert_eq!((rules(&good), n_runs.load(Ordering::SeqCst)), (vec!["preview"], 3));

    ws.put("src/a.py", &OLD.replace("one", "wrong"));
    let merged = gate.inspect(&set).unwrap();
    assert_eq!(rules(&merged)[0], "checks");
    assert_eq!(n_runs.load(Ordering::SeqCst), 4);
}

/// A set on which the checks have not run must not be accepted, even with a valid fingerprint.
#[test]
fn unchecked_states_are_not_accepted() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let judgement = ws.edit("src/a.py", &with_line(OLD));
    ws.put("_handoff/TASK_CONTRACT.json", CHECKED);
    let gate = Gate::open(ws.path("")).unwrap().with_checks(NothingWrong::default());
    let error = gate.accept(&judgement.set, judgement.fingerprint, "p").unwrap_err();
    assert!(error.to_string().contains("checks have not run"), "{error}");
    assert_eq!(ws.text("src/a.py"), OLD);
    let fingerprint = gate.inspect(&judgement.set).unwrap().fingerprint;
    gate.accept(&judgement.set, fingerprint, "p").unwrap();
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
}

/// A check that passes. During each of its first `.1` runs, it changes the file `.0`, like a set that is accepted
/// concurrently.
#[derive(Debug)]
struct ChangesBeside(std::path::PathBuf, usize, AtomicUsize);

impl ProjectChecks for ChangesBeside {
    fn run(&self, _check: &Check, _files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
        let number = self.2.fetch_add(1, Ordering::SeqCst);
        if number < self.1 {
            std::fs::write(&self.0, format!("{number}\n")).unwrap();
        }
        Ok(CheckOutcome { passed: true, output: String::new() })
    }
}

/// The results of checks must be ignored if the project was changed while the checks ran.
#[test]
fn check_results_apply_only_to_the_project_that_was_checked() {
    let contract = r#"{"draft_gate": {"checks": [{"name": "tests", "program": "true"}]}}"#;
    for (n_changes, decision, rules_found) in
        [(2, Decision::Accept, vec![]), (9, Decision::Escalate, vec!["unsettled"])]
    {
        let ws = TestWorkspace::with_contract(contract);
        let checks = ChangesBeside(ws.path("src/b.py"), n_changes, AtomicUsize::new(0));
        let gate = Gate::open(ws.path("")).unwrap().with_checks(checks);
        let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
        let judgement = gate.judge(&set).unwrap();
        assert_eq!((judgement.decision, rules(&judgement)), (decision, rules_found));
    }
}

/// A check that changes the contract while it runs.
#[derive(Debug)]
struct ChangesContract(std::path::PathBuf);

impl ProjectChecks for ChangesContract {
    fn run(&self, _check: &Check, _files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
        let contract = CHECKED.replace("always", "escalated").replace(
            r#"{"draft_gate""#,
            r#"{"constraints": {"forbidden_paths": ["src"]}, "draft_gate""#,
        );
        std::fs::write(&self.0, contract).unwrap();
        Ok(CheckOutcome { passed: true, output: String::new() })
    }
}

#[test]
fn contract_changed_during_the_checks_applies_to_the_decision() {
    let ws = TestWorkspace::with_contract(&CHECKED.replace("always", "escalated"));
    let checks = ChangesContract(ws.path("_handoff/TASK_CONTRACT.json"));
    let gate = Gate::open(ws.path("")).unwrap().with_checks(checks);
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    assert_eq!(gate.judge(&set).unwrap().decision, Decision::Reject);
    assert_eq!(ws.text("src/a.py"), OLD);
}

#[derive(Debug)]
struct NeverRuns;

impl ProjectChecks for NeverRuns {
    fn run(&self, _check: &Check, _files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
        unreachable!("the project is too large to copy")
    }
}

/// A change set must be escalated if the project is too large for its checks.
#[test]
fn projects_too_large_for_checks_are_escalated() {
    let ws = TestWorkspace::with_contract(CHECKED);
    for name in ["1", "2", "3", "4", "5"] {
        let file = std::fs::File::create(ws.path(name)).unwrap();
        file.set_len(15 << 20).unwrap();
    }
    let gate = Gate::open(ws.path("")).unwrap().with_checks(NeverRuns);
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let judgement = gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Escalate);
    assert!(judgement.findings.iter().any(|it| it.text.contains("larger than")));
}

/// A check that reports the files it received.
#[derive(Debug)]
struct Lists;

impl ProjectChecks for Lists {
    fn run(&self, _check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
        let paths: Vec<&str> = files.iter().map(|it| it.path.as_str()).collect();
        Ok(CheckOutcome { passed: false, output: paths.join(" ") })
    }
}

/// Checks must not see build output, but must see sources in directories with the same names.
#[test]
fn checks_see_sources_but_not_build_output() {
    let ws = TestWorkspace::with_contract(&CHECKED.replace("always", "escalated"));
    for path in [
        "Cargo.toml", "target/debug/x", "web/package.json", "web/dist/x.js",
        "web/node_modules/x.js", "src/target/mod.rs", "src/dist/x.py",
    ] {
        ws.put(path, "x\n");
    }
    let gate = Gate::open(ws.path("")).unwrap().with_checks(Lists);
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let judgement = gate.judge(&set).unwrap();
    let expect = "Cargo.toml src/a.py src/dist/x.py src/target/mod.rs web/package.json";
    assert!(judgement.findings[0].text.ends_with(&format!("failed: {expect}")), "{judgement:?}");
}
