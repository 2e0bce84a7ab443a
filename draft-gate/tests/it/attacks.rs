//! The attacks that are known: each ends with a refusal, a line in the log, and nothing touched outside.

use std::{
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    sync::Arc,
    thread,
    time::Instant,
};

use draft_gate::{Decision, Error, Request, Submission};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{OLD, Place, with_line};

/// A refusal that is a violation: counted, and logged with its prefix.
#[track_caller]
fn check_refused<T: std::fmt::Debug>(place: &Place, result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(error.is_violation(), "{error}");
    assert!(error.to_string().starts_with("SECURITY:"), "{error}");
    let last = place.gate.records().unwrap().pop().unwrap();
    assert_eq!(last.event, "violation");
    assert!(last.more["reason"].as_str().unwrap().starts_with("SECURITY:"));
    place.check_outside();
}

#[test]
fn traversal_in_all_encodings_and_by_every_tool() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
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
        check_refused(&place, worker.request(&Request::edit(path, "t")));
        check_refused(&place, worker.request(&Request::create(path, "t")));
        let inside = format!("_handoff/drafts/{path}");
        for draft in [path, &inside] {
            check_refused(&place, worker.write(draft, "x"));
            check_refused(&place, worker.read(draft));
        }
    }
}

#[test]
fn siblings_whose_name_starts_alike() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    place.put("_handoff/drafts-evil/a.py.t.draft", "x");
    place.put("_handoff/draftsa.py.t.draft", "x");
    check_refused(&place, worker.request(&Request::edit("../ws-evil/a.py", "t")));
    check_refused(&place, worker.read("_handoff/drafts-evil/a.py.t.draft"));
    check_refused(&place, worker.read("_handoff/draftsa.py.t.draft"));
    check_refused(&place, worker.write("_handoff/drafts/../drafts-evil/a.py.t.draft", "y"));
}

#[test]
fn what_is_not_for_workers_is_neither_read_nor_proposed() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    for path in [
        ".env",
        "conf/.env.local",
        ".git/config",
        "_handoff/TASK_CONTRACT.json",
        "_handoff/gate/lock",
        "tls/server.pem",
        "secrets.yaml",
    ] {
        if !path.starts_with("_handoff") {
            place.put(path, "K=1\n");
        }
        check_refused(&place, worker.request(&Request::edit(path, "t")));
        check_refused(&place, worker.request(&Request::create(path, "t")));
    }
}

#[test]
fn links_instead_of_files_and_folders() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    symlink(place.outside().join("a.py"), place.path("src/link.py")).unwrap();
    symlink(place.outside(), place.path("folder")).unwrap();
    symlink("folder", place.path("chain")).unwrap();
    symlink("../src/a.py", place.path("src/inside.py")).unwrap();
    for path in ["src/link.py", "folder/a.py", "chain/a.py", "src/inside.py"] {
        check_refused(&place, worker.request(&Request::edit(path, "t")));
        check_refused(&place, worker.request(&Request::delete(path, "t")));
    }
    check_refused(&place, worker.request(&Request::create("folder/new.py", "t")));
    check_refused(&place, worker.request(&Request::create("chain/deep/new.py", "t")));
}

#[test]
fn a_draft_that_became_a_link() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let draft = worker.request(&Request::edit("src/a.py", "t")).unwrap();
    fs::remove_file(place.path(&draft.draft_path)).unwrap();
    symlink(place.outside().join("a.py"), place.path(&draft.draft_path)).unwrap();
    check_refused(&place, worker.read(&draft.draft_path));
    check_refused(&place, worker.submit(&Submission::of(&draft, "x")));
    // A write replaces the link, and does not follow it.
    worker.write(&draft.draft_path, &with_line(OLD)).unwrap();
    assert!(fs::symlink_metadata(place.path(&draft.draft_path)).unwrap().is_file());
    place.check_outside();
}

#[test]
fn a_link_that_waits_where_a_draft_will_be() {
    let place = Place::new();
    symlink(place.outside().join("a.py"), place.path("_handoff/drafts/a.py.t.draft")).unwrap();
    symlink(place.outside().join("a.py"), place.path("_handoff/drafts/t.submission.json")).unwrap();
    assert_eq!(place.edit("src/a.py", &with_line(OLD)).decision, Decision::Accept);
    place.check_outside();
}

#[test]
fn a_file_with_several_names() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let draft = worker.request(&Request::edit("src/a.py", "t")).unwrap();
    fs::remove_file(place.path(&draft.draft_path)).unwrap();
    fs::hard_link(place.outside().join("a.py"), place.path(&draft.draft_path)).unwrap();
    check_refused(&place, worker.read(&draft.draft_path));
    check_refused(&place, worker.submit(&Submission::of(&draft, "x")));
    worker.write(&draft.draft_path, "mine\n").unwrap();
    place.check_outside();
    fs::hard_link(place.outside().join("a.py"), place.path("src/linked.py")).unwrap();
    check_refused(&place, worker.request(&Request::edit("src/linked.py", "t")));
}

#[test]
fn folders_that_are_exchanged_for_links() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let draft = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    let set = place.submit(&draft).set;
    fs::rename(place.path("src"), place.path("real")).unwrap();
    symlink(place.outside(), place.path("src")).unwrap();
    let judgement = place.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Reject);
    assert!(judgement.findings[0].text.contains("symbolic link"), "{:?}", judgement.findings);
    assert_eq!(place.text("real/a.py"), OLD);
    place.check_outside();

    let draft = worker.request(&Request::create("b.py", "t")).unwrap();
    fs::rename(place.path("_handoff/drafts"), place.path("_handoff/kept")).unwrap();
    symlink(place.outside(), place.path("_handoff/drafts")).unwrap();
    check_refused(&place, worker.write(&draft.draft_path, "x"));
    check_refused(&place, worker.read(&draft.draft_path));
    check_refused(&place, worker.submit(&Submission::of(&draft, "x")));
}

#[test]
fn an_original_that_becomes_a_link_before_it_is_applied() {
    let place = Place::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let judgement = place.edit("src/a.py", &with_line(OLD));
    fs::remove_file(place.path("src/a.py")).unwrap();
    symlink(place.outside().join("a.py"), place.path("src/a.py")).unwrap();
    let error = place.gate.accept(&judgement.set, judgement.sight, "p").unwrap_err();
    assert!(matches!(error, Error::SightChanged { .. }), "{error}");
    place.check_outside();
}

#[test]
fn pipes_sockets_devices_and_folders() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let pipe =
        |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let made: [(&str, &dyn Fn(&Path)); 4] = [
        ("pipe", &|path| pipe(path)),
        ("socket", &|path| drop(UnixListener::bind(path).unwrap())),
        ("folder", &|path| fs::create_dir(path).unwrap()),
        // Only root can make one; where we are not, a pipe has to do.
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
        make(&place.path(&name));
        check_refused(&place, worker.request(&Request::edit(&name, "t")));
        let draft = worker.request(&Request::edit("src/a.py", kind)).unwrap();
        fs::remove_file(place.path(&draft.draft_path)).unwrap();
        make(&place.path(&draft.draft_path));
        check_refused(&place, worker.read(&draft.draft_path));
        check_refused(&place, worker.submit(&Submission::of(&draft, "x")));
    }
}

/// Whoever can write among the drafts must not be able to stop the gate.
#[test]
fn folders_in_place_of_drafts_stop_nobody() {
    let place = Place::new();
    let draft = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    let set = place.submit(&draft).set;
    for path in [draft.draft_path.as_str(), "_handoff/drafts/t.submission.json"] {
        fs::remove_file(place.path(path)).unwrap();
        fs::create_dir_all(place.path(path).join("inner")).unwrap();
    }
    assert_eq!(place.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!(place.text("src/a.py"), with_line(OLD));
    assert_eq!(place.create("src/b.py", "b\n").decision, Decision::Accept);
}

#[test]
fn magic_links_lead_nowhere() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let open = File::open(place.outside().join("a.py")).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    symlink(format!("/proc/self/fd/{fd}"), place.path("src/fd.py")).unwrap();
    symlink("/proc/self/root", place.path("root")).unwrap();
    check_refused(&place, worker.request(&Request::edit("src/fd.py", "t")));
    check_refused(&place, worker.request(&Request::edit("root/etc/passwd", "t")));
    let draft = worker.request(&Request::edit("src/a.py", "t")).unwrap();
    fs::remove_file(place.path(&draft.draft_path)).unwrap();
    symlink(format!("/proc/self/fd/{fd}"), place.path(&draft.draft_path)).unwrap();
    check_refused(&place, worker.read(&draft.draft_path));
}

#[test]
fn forged_submissions() {
    let place = Place::new();
    place.put("src/b.py", OLD);
    let worker = place.gate.worker("w").unwrap();
    let draft = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    let forge = |change: &dyn Fn(&mut Submission)| {
        let mut submission = Submission::of(&draft, "x");
        change(&mut submission);
        check_refused(&place, worker.submit(&submission));
    };
    forge(&|it| it.original_path = "src/b.py".to_owned());
    forge(&|it| it.original_path = "../outside/a.py".to_owned());
    forge(&|it| it.task_id = "u".to_owned());
    forge(&|it| it.draft_path = "_handoff/drafts/b.py.t.draft".to_owned());
    // Files that nobody issued are no drafts, whatever they are called.
    place.put("_handoff/drafts/b.py.t.draft", "x");
    forge(&|it| it.draft_path = "_handoff/drafts/b.py.t.draft".to_owned());
    check_refused(&place, worker.write("_handoff/drafts/t.submission.json", "{}"));
    // Nor is the draft of another worker.
    let other = place.gate.worker("other").unwrap();
    check_refused(&place, other.submit(&Submission::of(&draft, "x")));
    check_refused(&place, other.write(&draft.draft_path, "x"));
    check_refused(&place, other.read(&draft.draft_path));
    // What the folder says about submissions is not believed.
    let set = place.submit(&draft).set;
    let list = place.text("_handoff/drafts/t.submission.json").replace("src/a.py", "src/b.py");
    place.put("_handoff/drafts/t.submission.json", &list);
    assert_eq!(place.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!((place.text("src/a.py"), place.text("src/b.py")), (with_line(OLD), OLD.to_owned()));
}

#[test]
fn replayed_submissions() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let draft = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    let submission = Submission::of(&draft, "x");
    let set = worker.submit(&submission).unwrap().set;
    assert!(matches!(worker.submit(&submission), Err(Error::Submitted { .. })));
    place.gate.judge(&set).unwrap();
    check_refused(&place, worker.submit(&submission));
    // To judge once more is to hear what was decided.
    place.put("src/a.py", OLD);
    assert_eq!(place.gate.judge(&set).unwrap().decision, Decision::Accept);
    assert_eq!(place.text("src/a.py"), OLD);
    assert_eq!(place.count("accepted"), 1);
}

#[test]
fn content_swapped_after_it_was_submitted() {
    let place = Place::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let worker = place.gate.worker("w").unwrap();
    let draft = place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD));
    let set = place.submit(&draft).set;
    fs::write(place.path(&draft.draft_path), "something else\n").unwrap();
    assert!(matches!(worker.write(&draft.draft_path, "x"), Err(Error::Submitted { .. })));
    let judgement = place.gate.judge(&set).unwrap();
    fs::write(place.path(&draft.draft_path), "yet something else\n").unwrap();
    place.gate.accept(&set, judgement.sight, "p").unwrap();
    assert_eq!(place.text("src/a.py"), with_line(OLD));
}

#[test]
fn a_frozen_content_that_was_changed_is_not_applied() {
    let place = Place::new();
    let set = place.submit(&place.draft(&Request::edit("src/a.py", "t"), &with_line(OLD))).set;
    for blob in crate::support::files(&place.path("_handoff/gate/blobs")) {
        fs::write(blob, "evil\n").unwrap();
    }
    let judgement = place.gate.judge(&set).unwrap();
    assert_eq!(judgement.decision, Decision::Escalate);
    assert!(judgement.findings[0].text.contains("damaged"), "{:?}", judgement.findings);
    assert!(place.gate.accept(&set, judgement.sight, "p").is_err());
    assert_eq!(place.text("src/a.py"), OLD);
    place.gate.reject(&set, judgement.sight, "damaged", "p").unwrap();
}

#[test]
fn drafts_of_two_gigabytes_cost_nothing() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let draft = worker.request(&Request::edit("src/a.py", "t")).unwrap();
    File::create(place.path(&draft.draft_path)).unwrap().set_len(2 << 30).unwrap();
    File::create(place.path("src/huge.py")).unwrap().set_len(2 << 30).unwrap();
    let start = Instant::now();
    assert!(matches!(worker.read(&draft.draft_path), Err(Error::TooLarge { .. })));
    assert!(matches!(worker.submit(&Submission::of(&draft, "x")), Err(Error::TooLarge { .. })));
    assert!(matches!(
        worker.request(&Request::edit("src/huge.py", "t")),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        worker.write(&draft.draft_path, &"x".repeat(2 << 20)),
        Err(Error::TooLarge { .. })
    ));
    // To read them would take longer by far.
    assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
}

#[test]
fn what_is_no_text_is_refused() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    let draft = worker.request(&Request::edit("src/a.py", "t")).unwrap();
    for bytes in [b"\xff\xfe\x00".as_slice(), b"a\0b", b"\xc0\xaf"] {
        fs::write(place.path(&draft.draft_path), bytes).unwrap();
        assert!(matches!(worker.read(&draft.draft_path), Err(Error::NotText { .. })));
        assert!(matches!(worker.submit(&Submission::of(&draft, "x")), Err(Error::NotText { .. })));
    }
    fs::write(place.path("src/binary"), b"\xff\xfe").unwrap();
    assert!(matches!(
        worker.request(&Request::edit("src/binary", "t")),
        Err(Error::NotText { .. })
    ));
}

#[test]
fn accepts_at_once() {
    let place = Arc::new(Place::with_contract(r#"{"draft_gate": {"preview": "always"}}"#));
    let judgement = place.edit("src/a.py", &with_line(OLD));
    let accepts: Vec<_> = (0..8)
        .map(|_| {
            let (place, set, sight) = (place.clone(), judgement.set.clone(), judgement.sight);
            thread::spawn(move || place.gate.accept(&set, sight, "p").is_ok())
        })
        .collect();
    let n_accepted = accepts.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count();
    assert_eq!((n_accepted, place.count("accepted")), (1, 1));
    assert_eq!(place.text("src/a.py"), with_line(OLD));
    place.gate.verify().unwrap();
}

#[test]
fn drafts_of_one_file_by_several_workers_at_once() {
    let place = Arc::new(Place::new());
    let judged: Vec<_> = (0..6)
        .map(|number| {
            let place = place.clone();
            thread::spawn(move || {
                let name = format!("w{number}");
                let worker = place.gate.worker(&name).unwrap();
                let draft = worker.request(&Request::edit("src/a.py", "t")).unwrap();
                worker.write(&draft.draft_path, &format!("{OLD}{name}\n")).unwrap();
                let set = worker.submit(&Submission::of(&draft, "x")).unwrap().set;
                place.gate.judge(&set).unwrap().decision
            })
        })
        .collect();
    let decisions: Vec<_> = judged.into_iter().map(|it| it.join().unwrap()).collect();
    let n_accepted = decisions.iter().filter(|it| **it == Decision::Accept).count();
    // Each accepted one saw what was there; the others met the rule for conflicts.
    assert!(n_accepted >= 1);
    assert_eq!(place.count("accepted"), n_accepted);
    assert_eq!(place.count("escalated"), 6 - n_accepted);
    place.gate.verify().unwrap();
}

#[test]
fn mode_bits_survive() {
    let place = Place::new();
    for mode in [0o755, 0o600, 0o444] {
        fs::set_permissions(place.path("src/a.py"), fs::Permissions::from_mode(mode)).unwrap();
        let text = with_line(&place.text("src/a.py"));
        assert_eq!(place.edit("src/a.py", &text).decision, Decision::Accept);
        let metadata = fs::metadata(place.path("src/a.py")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (mode, 1));
        assert_eq!(place.text("src/a.py"), text);
    }
}

/// Whether nobody but the owner has anything of what lies beneath a folder, and of the folder itself.
fn is_private(path: &Path) -> bool {
    let is_closed = fs::symlink_metadata(path).unwrap().mode() & 0o077 == 0;
    let mut inner = path.is_dir().then(|| fs::read_dir(path).unwrap()).into_iter().flatten();
    is_closed && inner.all(|it| is_private(&it.unwrap().path()))
}

fn open_to_all(path: &Path) {
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::read_dir(path).unwrap().for_each(|it| open_to_all(&it.unwrap().path()));
    } else {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// A draft is a copy of a file that others may not be allowed to read; so is what is kept of it.
#[test]
fn what_the_gate_keeps_is_for_its_user_alone() {
    let place = Place::new();
    place.edit("src/a.py", "gone\n");
    place.draft(&Request::create("src/b.py", "t"), "b\n");
    let kept = ["drafts", "gate", "transition.ndjson"].map(|it| place.path("_handoff").join(it));
    assert_eq!(kept.each_ref().map(|it| is_private(it)), [true; 3]);

    // A gate of an earlier version is closed when it is opened; what workers put there is not ours to change.
    kept.iter().for_each(|it| open_to_all(it));
    let outside = place.outside().join("a.py");
    symlink(&outside, place.path("_handoff/drafts/link")).unwrap();
    fs::hard_link(&outside, place.path("_handoff/drafts/other-name")).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o644)).unwrap();
    draft_gate::Gate::open(place.path("")).unwrap();
    assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o644);
    fs::remove_file(place.path("_handoff/drafts/link")).unwrap();
    fs::remove_file(place.path("_handoff/drafts/other-name")).unwrap();
    assert_eq!(kept.each_ref().map(|it| is_private(it)), [true; 3]);
}

#[test]
fn names_that_differ_in_case_alone() {
    let place = Place::new();
    let worker = place.gate.worker("w").unwrap();
    for path in ["src/A.py", "SRC/b.py"] {
        assert!(
            matches!(worker.request(&Request::create(path, "t")), Err(Error::Exists { .. })),
            "{path}"
        );
    }
}

#[test]
fn names_of_drafts_do_not_collide() {
    let place = Place::new();
    place.put("lib/a.py", "lib\n");
    let worker = place.gate.worker("w").unwrap();
    let one = worker.request(&Request::edit("src/a.py", "t")).unwrap();
    let two = worker.request(&Request::edit("lib/a.py", "t")).unwrap();
    let three = place.gate.worker("v").unwrap().request(&Request::edit("src/a.py", "t")).unwrap();
    assert_eq!(one.draft_path, "_handoff/drafts/a.py.t.draft");
    assert!(
        two.draft_path != one.draft_path
            && three.draft_path != one.draft_path
            && two.draft_path != three.draft_path
    );
    assert_eq!(worker.read(&two.draft_path).unwrap().content, "lib\n");
    // The same request is the same draft.
    assert_eq!(worker.request(&Request::edit("lib/a.py", "t")).unwrap(), two);
}

#[test]
fn a_workspace_that_is_reached_over_a_link_is_one() {
    let place = Place::new();
    let link = place.path("../ws-link");
    symlink(place.path(""), &link).unwrap();
    let gate = draft_gate::Gate::open(&link).unwrap();
    assert!(gate.worker("w").unwrap().request(&Request::edit("src/a.py", "t")).is_ok());
}
