//! Tests with random paths. Every accepted path must refer to a file in the workspace, and nothing else may be touched.

use draft_gate::{Decision, DraftRequest};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use test_support::is_nightly;

use crate::support::{TestWorkspace, files};

/// Generates paths from fragments that attacks use.
fn path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just("/".to_owned()),
        Just("//".to_owned()),
        Just("\\".to_owned()),
        Just("%2e".to_owned()),
        Just("%2f".to_owned()),
        Just("\0".to_owned()),
        Just("\u{202e}".to_owned()),
        Just("outside".to_owned()),
        Just("ws-evil".to_owned()),
        Just("src".to_owned()),
        Just("_handoff".to_owned()),
        Just("drafts".to_owned()),
        Just("a.py".to_owned()),
        Just(".git".to_owned()),
        Just("CON".to_owned()),
        "[a-z]{1,4}",
        "\\PC{1,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec((piece, prop::bool::ANY), 1..8).prop_map(|pieces| {
        pieces
            .into_iter()
            .map(|(piece, is_folder)| if is_folder { piece + "/" } else { piece })
            .collect()
    })
}

#[test]
fn files_are_created_only_inside_the_workspace() {
    let cases = if is_nightly() { 3_000 } else { 150 };
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"allowed_tool_files": ["**"]}}"#);
    // Cause a rejection first, because the log's files are created with the first rejection.
    ws.gate.worker("w").unwrap().read("../x").unwrap_err();
    let made = std::cell::RefCell::new(std::collections::BTreeSet::new());
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
        .run(&path(), |path| {
            let before = files(&ws.path("")).len();
            let worker = ws.gate.worker("w").unwrap();
            match worker.request(&DraftRequest::create(&path, "t")) {
                Ok(draft) => {
                    worker.write(&draft.draft_path, "made\n").unwrap();
                    let judgement = ws.gate.judge(&ws.submit(&draft).set).unwrap();
                    prop_assert_eq!(judgement.decision, Decision::Accept);
                    prop_assert_eq!(ws.text(&path), "made\n");
                    made.borrow_mut().insert(path);
                }
                // A rejection adds no file; at most, it appends to the log.
                Err(_) => prop_assert_eq!(files(&ws.path("")).len(), before),
            }
            ws.check_outside();
            Ok(())
        })
        .unwrap();
    // At least one file must have been created, or the test would be meaningless.
    assert!(!made.borrow().is_empty());
}
