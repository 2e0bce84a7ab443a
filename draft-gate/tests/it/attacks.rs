//! Tests of known attacks. Each one must be rejected and logged, and nothing outside the workspace may change.

use std::{
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    sync::Arc,
    thread,
};

use draft_gate::{Decision, DraftRequest, Error, Submission};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{OLD, TestWorkspace, with_line};

/// Asserts that the result is a violation, and that the violation is logged.
#[track_caller]
fn check_refused<T: std::fmt::Debug>(ws: &TestWorkspace, result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(error.is_violation(), "{error}");
    assert!(error.to_string().starts_with("SECURITY:"), "{error}");
    let last = ws.gate.records().unwrap().pop().unwrap();
    assert_eq!(last.event, "violation");
    assert!(last.more["reason"].as_str().unwrap().starts_with("SECURITY:"));
    ws.check_outside();
}

#[test]
fn path_traversal_is_rejected_by_every_tool() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    for path in [
        "../outside/a.py",
        "src/../../outside/a.py",
        "/etc/passwd",
        "..\\outside\\a.py",
        "%2e%2e/outside/a.py",
        "%2e%2e%2foutside%2fa.py",
        "%252e%252e%252foutside",
        "..%c0%afoutside",
        "\u{ff0e}\u{ff0e}/outside/a.py",
        "..\u{2215}outside",
        "src/a.py\0.txt",
        "src/\u{202e}yp.a",
        "src//a.py",
        "./src/a.py",
        "src/.",
        "",
        "~/a.py\n",
        "C:\\Windows",
        "src/a.py:stream",
        &"x/".repeat(3000),
    ] {
        check_refused(&ws, worker.request(&DraftRequest::edit(path, "t")));
        check_refused(&ws, worker.request(&DraftRequest::create(path, "t")));
        let inside = format!("_handoff/drafts/{path}");
        for draft in [path, &inside] {
            check_refused(&ws, worker.write(draft, "x"));
            check_refused(&ws, worker.read(draft));
        }
    }
}

#[test]
fn sibling_directories_with_the_same_prefix_are_outside() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    ws.put("_handoff/drafts-evil/a.py.t.draft", "x");
    ws.put("_handoff/draftsa.py.t.draft", "x");
    check_refused(&ws, worker.request(&DraftRequest::edit("../ws-evil/a.py", "t")));
    check_refused(&ws, worker.read("_handoff/drafts-evil/a.py.t.draft"));
    check_refused(&ws, worker.read("_handoff/draftsa.py.t.draft"));
    check_refused(&ws, worker.write("_handoff/drafts/../drafts-evil/a.py.t.draft", "y"));
}

#[test]
fn protected_files_can_neither_be_read_nor_proposed() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    for path in [
        ".env", "conf/.env.local", ".git/config", "_handoff/TASK_CONTRACT.json",
        "_handoff/gate/lock", "tls/server.pem", "secrets.yaml",
    ] {
        if !path.starts_with("_handoff") {
            ws.put(path, "K=1\n");
        }
        check_refused(&ws, worker.request(&DraftRequest::edit(path, "t")));
        check_refused(&ws, worker.request(&DraftRequest::create(path, "t")));
    }
}

#[test]
fn links_in_place_of_files_and_directories_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    symlink(ws.outside().join("a.py"), ws.path("src/link.py")).unwrap();
    symlink(ws.outside(), ws.path("folder")).unwrap();
    symlink("folder", ws.path("chain")).unwrap();
    symlink("../src/a.py", ws.path("src/inside.py")).unwrap();
    for path in ["src/link.py", "folder/a.py", "chain/a.py", "src/inside.py"] {
        check_refused(&ws, worker.request(&DraftRequest::edit(path, "t")));
        check_refused(&ws, worker.request(&DraftRequest::delete(path, "t")));
    }
    check_refused(&ws, worker.request(&DraftRequest::create("folder/new.py", "t")));
    check_refused(&ws, worker.request(&DraftRequest::create("chain/deep/new.py", "t")));
}

#[test]
fn drafts_replaced_by_links_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    fs::remove_file(ws.path(&draft.draft_path)).unwrap();
    symlink(ws.outside().join("a.py"), ws.path(&draft.draft_path)).unwrap();
    check_refused(&ws, worker.read(&draft.draft_path));
    check_refused(&ws, worker.submit(&Submission::of(&draft, "x")));
    // A write replaces the link and does not follow it.
    worker.write(&draft.draft_path, &with_line(OLD)).unwrap();
    assert!(fs::symlink_metadata(ws.path(&draft.draft_path)).unwrap().is_file());
    ws.check_outside();
}

#[test]
fn links_at_the_path_of_a_new_draft_are_not_followed() {
    let ws = TestWorkspace::new();
    symlink(ws.outside().join("a.py"), ws.path("_handoff/drafts/a.py.t.draft")).unwrap();
    symlink(ws.outside().join("a.py"), ws.path("_handoff/drafts/t.submission.json")).unwrap();
    assert_eq!(ws.edit("src/a.py", &with_line(OLD)).decision, Decision::Accept);
    ws.check_outside();
}

#[test]
fn files_with_several_hard_links_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    fs::remove_file(ws.path(&draft.draft_path)).unwrap();
    fs::hard_link(ws.outside().join("a.py"), ws.path(&draft.draft_path)).unwrap();
    check_refused(&ws, worker.read(&draft.draft_path));
    check_refused(&ws, worker.submit(&Submission::of(&draft, "x")));
    worker.write(&draft.draft_path, "mine\n").unwrap();
    ws.check_outside();
    fs::hard_link(ws.outside().join("a.py"), ws.path("src/linked.py")).unwrap();
    check_refused(&ws, worker.request(&DraftRequest::edit("src/linked.py", "t")));
}

#[test]
fn directories_replaced_by_links_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let set = ws.submit(&draft).set;
    fs::rename(ws.path("src"), ws.path("real")).unwrap();
    symlink(ws.outside(), ws.path("src")).unwrap();
    let judgement = ws.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Reject);
    assert!(judgement.findings[0].text.contains("symbolic link"), "{:?}", judgement.findings);
    assert_eq!(ws.text("real/a.py"), OLD);
    ws.check_outside();

    let draft = worker.request(&DraftRequest::create("b.py", "t")).unwrap();
    fs::rename(ws.path("_handoff/drafts"), ws.path("_handoff/kept")).unwrap();
    symlink(ws.outside(), ws.path("_handoff/drafts")).unwrap();
    check_refused(&ws, worker.write(&draft.draft_path, "x"));
    check_refused(&ws, worker.read(&draft.draft_path));
    check_refused(&ws, worker.submit(&Submission::of(&draft, "x")));
}

#[test]
fn originals_replaced_by_links_are_not_followed() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let judgement = ws.edit("src/a.py", &with_line(OLD));
    fs::remove_file(ws.path("src/a.py")).unwrap();
    symlink(ws.outside().join("a.py"), ws.path("src/a.py")).unwrap();
    let error = ws.gate.accept(&judgement.set, judgement.fingerprint, "p").unwrap_err();
    assert!(matches!(error, Error::StaleReview { .. }), "{error}");
    ws.check_outside();
}

#[test]
fn special_files_and_directories_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let pipe =
        |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let made: [(&str, &dyn Fn(&Path)); 4] = [
        ("pipe", &|path| pipe(path)),
        ("socket", &|path| drop(UnixListener::bind(path).unwrap())),
        ("folder", &|path| fs::create_dir(path).unwrap()),
        // Only root can create devices. Other users test with a pipe instead.
        ("device", &|path| {
            let null = rustix::fs::makedev(1, 3);
            if mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o644), null)
                .is_err()
            {
                pipe(path);
            }
        }),
    ];
    for (kind, make) in made {
        let name = format!("src/{kind}");
        make(&ws.path(&name));
        check_refused(&ws, worker.request(&DraftRequest::edit(&name, "t")));
        let draft = worker.request(&DraftRequest::edit("src/a.py", kind)).unwrap();
        fs::remove_file(ws.path(&draft.draft_path)).unwrap();
        make(&ws.path(&draft.draft_path));
        check_refused(&ws, worker.read(&draft.draft_path));
        check_refused(&ws, worker.submit(&Submission::of(&draft, "x")));
    }
}

/// A program that writes to the drafts directory must not be able to block the gate.
#[test]
fn directories_in_place_of_drafts_do_not_block_the_gate() {
    let ws = TestWorkspace::new();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let set = ws.submit(&draft).set;
    for path in [draft.draft_path.as_str(), "_handoff/drafts/t.submission.json"] {
        fs::remove_file(ws.path(path)).unwrap();
        fs::create_dir_all(ws.path(path).join("inner")).unwrap();
    }
    assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
    assert_eq!(ws.create("src/b.py", "b\n").decision, Decision::Accept);
}

#[test]
fn magic_links_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let open = File::open(ws.outside().join("a.py")).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    symlink(format!("/proc/self/fd/{fd}"), ws.path("src/fd.py")).unwrap();
    symlink("/proc/self/root", ws.path("root")).unwrap();
    check_refused(&ws, worker.request(&DraftRequest::edit("src/fd.py", "t")));
    check_refused(&ws, worker.request(&DraftRequest::edit("root/etc/passwd", "t")));
    let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    fs::remove_file(ws.path(&draft.draft_path)).unwrap();
    symlink(format!("/proc/self/fd/{fd}"), ws.path(&draft.draft_path)).unwrap();
    check_refused(&ws, worker.read(&draft.draft_path));
}

#[test]
fn forged_submissions_are_rejected() {
    let ws = TestWorkspace::new();
    ws.put("src/b.py", OLD);
    let worker = ws.gate.worker("w").unwrap();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let forge = |change: &dyn Fn(&mut Submission)| {
        let mut submission = Submission::of(&draft, "x");
        change(&mut submission);
        check_refused(&ws, worker.submit(&submission));
    };
    forge(&|it| it.original_path = "src/b.py".to_owned());
    forge(&|it| it.original_path = "../outside/a.py".to_owned());
    forge(&|it| it.task_id = "u".to_owned());
    forge(&|it| it.draft_path = "_handoff/drafts/b.py.t.draft".to_owned());
    // A file that was not issued is not a draft, even if it has the name of one.
    ws.put("_handoff/drafts/b.py.t.draft", "x");
    forge(&|it| it.draft_path = "_handoff/drafts/b.py.t.draft".to_owned());
    check_refused(&ws, worker.write("_handoff/drafts/t.submission.json", "{}"));
    // A worker cannot submit another worker's draft.
    let other = ws.gate.worker("other").unwrap();
    check_refused(&ws, other.submit(&Submission::of(&draft, "x")));
    check_refused(&ws, other.write(&draft.draft_path, "x"));
    check_refused(&ws, other.read(&draft.draft_path));
    // The gate does not trust the submission file.
    let set = ws.submit(&draft).set;
    let list = ws.text("_handoff/drafts/t.submission.json").replace("src/a.py", "src/b.py");
    ws.put("_handoff/drafts/t.submission.json", &list);
    assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!((ws.text("src/a.py"), ws.text("src/b.py")), (with_line(OLD), OLD.to_owned()));
}

#[test]
fn replayed_submissions_are_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let submission = Submission::of(&draft, "x");
    let set = worker.submit(&submission).unwrap().set;
    assert!(matches!(worker.submit(&submission), Err(Error::AlreadySubmitted { .. })));
    ws.gate.judge(&set).unwrap();
    check_refused(&ws, worker.submit(&submission));
    // Judging again returns the earlier decision.
    ws.put("src/a.py", OLD);
    assert_eq!(ws.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!(ws.text("src/a.py"), OLD);
    assert_eq!(ws.count("accepted"), 1);
}

#[test]
fn content_changed_after_submission_is_ignored() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let worker = ws.gate.worker("w").unwrap();
    let draft = ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD));
    let set = ws.submit(&draft).set;
    fs::write(ws.path(&draft.draft_path), "something else\n").unwrap();
    assert!(matches!(worker.write(&draft.draft_path, "x"), Err(Error::AlreadySubmitted { .. })));
    let judgement = ws.gate.judge(&set).unwrap();
    fs::write(ws.path(&draft.draft_path), "yet something else\n").unwrap();
    ws.gate.accept(&set, judgement.fingerprint, "p").unwrap();
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
}

#[test]
fn corrupt_stored_content_is_not_applied() {
    let ws = TestWorkspace::new();
    let set = ws.submit(&ws.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    for blob in crate::support::files(&ws.path("_handoff/gate/blobs")) {
        fs::write(blob, "evil\n").unwrap();
    }
    let judgement = ws.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Escalate);
    assert!(judgement.findings[0].text.contains("corrupt"), "{:?}", judgement.findings);
    assert!(ws.gate.accept(&set, judgement.fingerprint, "p").is_err());
    assert_eq!(ws.text("src/a.py"), OLD);
    ws.gate.reject(&set, judgement.fingerprint, "corrupt", "p").unwrap();
}

#[test]
fn huge_drafts_are_rejected_without_reading_them() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    File::create(ws.path(&draft.draft_path)).unwrap().set_len(2 << 30).unwrap();
    File::create(ws.path("src/huge.py")).unwrap().set_len(2 << 30).unwrap();
    let before = bytes_read();
    assert!(matches!(worker.read(&draft.draft_path), Err(Error::TooLarge { .. })));
    assert!(matches!(worker.submit(&Submission::of(&draft, "x")), Err(Error::TooLarge { .. })));
    assert!(matches!(
        worker.request(&DraftRequest::edit("src/huge.py", "t")),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        worker.write(&draft.draft_path, &"x".repeat(2 << 20)),
        Err(Error::TooLarge { .. })
    ));
    let n_read = bytes_read() - before;
    assert!(n_read < 1 << 30, "{n_read} bytes were read");
}

/// Returns the number of bytes that this thread has read.
fn bytes_read() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    counts.lines().find_map(|it| it.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn binary_content_is_rejected() {
    let ws = TestWorkspace::new();
    let worker = ws.gate.worker("w").unwrap();
    let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    for bytes in [b"\xff\xfe\x00".as_slice(), b"a\0b", b"\xc0\xaf"] {
        fs::write(ws.path(&draft.draft_path), bytes).unwrap();
        assert!(matches!(worker.read(&draft.draft_path), Err(Error::NotText { .. })));
        assert!(matches!(worker.submit(&Submission::of(&draft, "x")), Err(Error::NotText { .. })));
    }
    fs::write(ws.path("src/binary"), b"\xff\xfe").unwrap();
    assert!(matches!(
        worker.request(&DraftRequest::edit("src/binary", "t")),
        Err(Error::NotText { .. })
    ));
}

#[test]
fn concurrent_accepts_apply_once() {
    let ws = Arc::new(TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#));
    let judgement = ws.edit("src/a.py", &with_line(OLD));
    let accepts: Vec<_> = (0..8)
        .map(|_| {
            let (ws, set, fingerprint) = (ws.clone(), judgement.set.clone(), judgement.fingerprint);
            thread::spawn(move || ws.gate.accept(&set, fingerprint, "p").is_ok())
        })
        .collect();
    let n_accepted = accepts.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count();
    assert_eq!((n_accepted, ws.count("accepted")), (1, 1));
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
    ws.gate.verify().unwrap();
}

#[test]
fn concurrent_drafts_of_one_file_do_not_overwrite_each_other() {
    let ws = Arc::new(TestWorkspace::new());
    let judged: Vec<_> = (0..6)
        .map(|number| {
            let ws = ws.clone();
            thread::spawn(move || {
                let name = format!("w{number}");
                let worker = ws.gate.worker(&name).unwrap();
                let draft = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
                worker.write(&draft.draft_path, &format!("{OLD}{name}\n")).unwrap();
                let set = worker.submit(&Submission::of(&draft, "x")).unwrap().set;
                ws.gate.judge(&set).unwrap().decision
            })
        })
        .collect();
    let decisions: Vec<_> = judged.into_iter().map(|it| it.join().unwrap()).collect();
    let n_accepted = decisions.iter().filter(|it| **it == Decision::Accept).count();
    // A draft is accepted only if the file has not changed since the draft was requested. The conflict rule escalates
    // all other drafts.
    assert!(n_accepted >= 1);
    assert_eq!(ws.count("accepted"), n_accepted);
    assert_eq!(ws.count("escalated"), 6 - n_accepted);
    ws.gate.verify().unwrap();
}

#[test]
fn mode_bits_are_preserved() {
    let ws = TestWorkspace::new();
    for mode in [0o755, 0o600, 0o444] {
        fs::set_permissions(ws.path("src/a.py"), fs::Permissions::from_mode(mode)).unwrap();
        let text = with_line(&ws.text("src/a.py"));
        assert_eq!(ws.edit("src/a.py", &text).decision, Decision::Accept);
        let metadata = fs::metadata(ws.path("src/a.py")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (mode, 1));
        assert_eq!(ws.text("src/a.py"), text);
    }
}

/// Returns whether only the owner can access a directory and everything in it.
fn is_private(path: &Path) -> bool {
    let is_closed = fs::symlink_metadata(path).unwrap().mode() & 0o077 == 0;
    let mut inner = path.is_dir().then(|| fs::read_dir(path).unwrap()).into_iter().flatten();
    is_closed && inner.all(|it| is_private(&it.unwrap().path()))
}

fn make_world_readable(path: &Path) {
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::read_dir(path).unwrap().for_each(|it| make_world_readable(&it.unwrap().path()));
    } else {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// Only the owner may access the gate's files, because drafts and stored contents are copies of files that may be
/// private.
#[test]
fn files_of_the_gate_are_private() {
    let ws = TestWorkspace::new();
    ws.edit("src/a.py", "gone\n");
    ws.draft(&DraftRequest::create("src/b.py", "t"), "b\n");
    let kept = ["drafts", "gate", "transition.ndjson"].map(|it| ws.path("_handoff").join(it));
    assert_eq!(kept.each_ref().map(|it| is_private(it)), [true; 3]);

    // Opening a gate that an earlier version created makes the gate's files private. Files outside the workspace keep
    // their permissions, even if workers have linked them into the drafts directory.
    kept.iter().for_each(|it| make_world_readable(it));
    let outside = ws.outside().join("a.py");
    symlink(&outside, ws.path("_handoff/drafts/link")).unwrap();
    fs::hard_link(&outside, ws.path("_handoff/drafts/other-name")).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o644)).unwrap();
    draft_gate::Gate::open(ws.path("")).unwrap();
    assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o644);
    fs::remove_file(ws.path("_handoff/drafts/link")).unwrap();
    fs::remove_file(ws.path("_handoff/drafts/other-name")).unwrap();
    assert_eq!(kept.each_ref().map(|it| is_private(it)), [true; 3]);
}

#[test]
fn draft_names_do_not_collide() {
    let ws = TestWorkspace::new();
    ws.put("lib/a.py", "lib\n");
    let worker = ws.gate.worker("w").unwrap();
    let one = worker.request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    let two = worker.request(&DraftRequest::edit("lib/a.py", "t")).unwrap();
    let three = ws.gate.worker("v").unwrap().request(&DraftRequest::edit("src/a.py", "t")).unwrap();
    assert_eq!(one.draft_path, "_handoff/drafts/a.py.t.draft");
    assert!(
        two.draft_path != one.draft_path
            && three.draft_path != one.draft_path
            && two.draft_path != three.draft_path
    );
    assert_eq!(worker.read(&two.draft_path).unwrap().content, "lib\n");
    // Making the same request again returns the same draft.
    assert_eq!(worker.request(&DraftRequest::edit("lib/a.py", "t")).unwrap(), two);
}

#[test]
fn workspaces_may_be_opened_through_links() {
    let ws = TestWorkspace::new();
    let link = ws.path("../ws-link");
    symlink(ws.path(""), &link).unwrap();
    let gate = draft_gate::Gate::open(&link).unwrap();
    assert!(gate.worker("w").unwrap().request(&DraftRequest::edit("src/a.py", "t")).is_ok());
}
