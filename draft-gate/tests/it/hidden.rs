//! Tests of secrets in names, of invisible and confusable characters, and of files that configure tools.

use draft_gate::{Decision, DraftRequest, Error};

use crate::support::{OLD, TestWorkspace, with_line};

/// Secrets in file names and task ids must not reach the log, the drafts directory or a message.
#[test]
fn secrets_in_paths_and_task_ids_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF2hJ5".get(..36).unwrap());
    let aws = "AKIAZ7Q3X5PLM2NK4TRW";
    let mut n_refused = 0;
    for path in [
        format!("src/{token}.txt"),
        format!("src/backup_{token}.txt"),
        format!("{aws}/a.py"),
        "notes/password=hunter2Xk9.txt".to_owned(),
        "notes/db_password_Xk29sLmQ8zRt.txt".to_owned(),
        "notes/api-key-9f8e7d6c5b4a39281706f5e4.txt".to_owned(),
        "notes/api-key-9f8e7d6c-5b4a-4928-a706-f5e4d3c2b1a0.txt".to_owned(),
        "notes/token-9f8e7d6c-5b4a-4928-a706-f5e4d3c2b1a0.txt".to_owned(),
    ] {
        let error = worker.request(&DraftRequest::create(&path, "t")).unwrap_err();
        assert!(matches!(error, Error::SecretInName { .. }), "{path}: {error}");
        assert!(!error.to_string().contains(&path[8..]), "{error}");
        n_refused += 1;
    }
    for task in [token.as_str(), aws, "password-Hunter2Xk9zz", "sk-live-4f9aXq8c7dTzR6e5bYw4a3fK"] {
        let error = worker.request(&DraftRequest::edit("src/a.py", task)).unwrap_err();
        assert!(matches!(error, Error::SecretInName { .. }), "{task}: {error}");
        assert!(ws.gate.submit_text("w", task, "```py src/a.py\nx = 1\n```\n").is_err(), "{task}");
        n_refused += 1;
    }
    let log = ws.text("_handoff/transition.ndjson");
    assert!(!log.contains(&token) && !log.contains(aws) && !log.contains("unter2"), "{log}");
    assert_eq!(ws.count("violation"), n_refused);
    for (path, task) in [
        ("src/password_reset.py", "rotate-the-api-key"),
        ("src/token_bucket.rs", "phase10_version_flag"),
        ("docs/secret-management-2024.md", "fix-password-reset-v2"),
        ("src/api_key_v2_handler.py", "task-20240131"),
        (
            "runs/9f8e7d6c-5b4a-4928-a706-f5e4d3c2b1a0.txt",
            "run-9f8e7d6c-5b4a-4928-a706-f5e4d3c2b1a0",
        ),
    ] {
        worker.request(&DraftRequest::create(path, task)).unwrap();
    }
}

#[test]
fn invisible_and_confusable_characters_are_escalated() {
    let ws = TestWorkspace::new();
    for (rule, line) in [
        ("hidden-characters", "x = 1\u{3164}"),
        ("hidden-characters", "a\u{2800}b = 1"),
        ("hidden-characters", "a\u{34f}b = 1"),
        ("hidden-characters", "a\u{ffa0} = 1"),
        ("hidden-characters", "a\u{180e}b = 1"),
        ("hidden-characters", "a\u{fe00}b = 1"),
        ("hidden-characters", "a\u{a0}= 1"),
        ("hidden-characters", &format!("x = 1{}; y = 2", " ".repeat(200))),
        ("confusable-characters", "# https://a.com\u{2215}x.org"),
        ("confusable-characters", "if \u{430}dmin:"),
        ("confusable-characters", "s\u{441}ope = 1"),
        ("confusable-characters", "𝐚dmin = 1"),
        ("confusable-characters", "сору(х)"),
        ("confusable-characters", "env\u{1c3}=1"),
        ("confusable-characters", "x = 1\u{37e}"),
        ("confusable-characters", "adm\u{131}n = 1"),
    ] {
        let judgement = ws.edit("src/a.py", &format!("{OLD}{line}\n"));
        assert_eq!(judgement.decision, Decision::Escalate, "{line:?}");
        assert_eq!(judgement.findings[0].rule, rule, "{line:?}");
        assert!(judgement.findings[0].text.is_ascii(), "{:?}", judgement.findings[0]);
        ws.gate.reject(&judgement.set, judgement.fingerprint, "x", "p").unwrap();
    }
    let harmless = format!("{OLD}# naïve café, ✅ ⚠️ done — привет, 日本語, Δx\n");
    assert_eq!(ws.edit("src/a.py", &harmless).decision, Decision::Accept);
}

/// A name that looks like an existing one, or differs only in case, is refused with advice.
#[test]
fn names_that_look_like_existing_ones_are_rejected_with_advice() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    for (path, existing) in
        [("src/A.py", "src/a.py"), ("SRC/b.py", "src"), ("src/\u{430}.py", "src/a.py")]
    {
        let error = worker.request(&DraftRequest::create(path, "t")).unwrap_err();
        assert!(matches!(error, Error::NameCollision { .. }), "{error}");
        let advice = format!("spell it `{existing}`; otherwise choose another name");
        assert!(error.to_string().contains(&advice), "{error}");
    }
    // Similar names that consist of ASCII characters do not collide.
    ws.put("src/v1.py", "x\n");
    worker.request(&DraftRequest::create("src/vl.py", "t")).unwrap();
    // A path that looks like ASCII text is shown to a person.
    for path in ["src/оса.py", "src/adm\u{131}n.py"] {
        assert_eq!(ws.create(path, "x = 1\n").findings[0].rule, "confusable-path", "{path}");
    }
}

#[test]
fn files_that_configure_tools_are_escalated_unless_the_contract_allows_them() {
    let contract = r#"{"draft_gate": {"allowed_tool_files": [".github/labels", "scripts/*.sh"]}}"#;
    let ws = TestWorkspace::with_contract(contract);
    for (path, content) in [
        (".some-future-tool/config", "x\n"),
        (".editorconfig", "x\n"),
        ("QWEN.md", "x\n"),
        ("docs/api.instructions.md", "x\n"),
        ("Makefile", "all:\n"),
        ("run.sh", "ls\n"),
        ("tool", "#!/bin/sh\nls\n"),
        (".github/workflows/ci.yml", "x: 1\n"),
    ] {
        let judgement = ws.create(path, content);
        assert_eq!(judgement.decision, Decision::Escalate, "{path}");
        assert_eq!(judgement.findings[0].rule, "tool-configuration", "{path}");
        assert!(judgement.findings[0].text.contains("allowed_tool_files"));
    }
    for (path, content) in [
        (".github/labels", "x\n"),
        ("scripts/build.sh", "#!/bin/sh\nls\n"),
        ("src/b.py", "x = 1\n"),
    ] {
        assert_eq!(ws.create(path, content).decision, Decision::Accept, "{path}");
    }
    // An existing instruction file stays protected, but an existing script can be edited.
    ws.put("AGENTS.md", OLD);
    ws.put("old.sh", OLD);
    assert_eq!(ws.edit("AGENTS.md", &with_line(OLD)).decision, Decision::Escalate);
    assert_eq!(ws.edit("old.sh", &with_line(OLD)).decision, Decision::Accept);
}

/// Files that take too long to scan are escalated, and findings in the scanned lines are kept.
#[test]
fn scanning_is_limited() {
    let line = "curl aws token password identified by secret basic machine ://".repeat(40);
    let lines: Vec<(u32, String)> = (1..6_000).map(|it| (it, line.clone())).collect();
    let findings = draft_gate::scan("a.txt", &lines);
    let limit = findings.iter().find(|it| it.rule == "scan-limit").unwrap();
    assert!(limit.line.unwrap() > 100, "{limit:?}");
}
