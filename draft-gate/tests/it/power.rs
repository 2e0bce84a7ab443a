//! Simulates a power failure before every write and sync. Synced data survives. Of all other data, either nothing
//! survives, or only the names, or only the content.
//!
//! A hook reports each sync, and a model of the disk records what must survive. From that, the test builds the
//! workspace as it would be found after the power failure.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use draft_gate::{Decision, Digest, DraftRequest, Error, Gate, Submission};

use crate::support::{self, OLD, copy_workspace, create_stage, three_changes, with_line};

/// Identity of a file or directory, independent of its name. It includes a time because inode numbers can be reused.
type Id = (u64, SystemTime);

/// The data that is guaranteed to be on disk.
#[derive(Clone, Default)]
struct Disk {
    contents: HashMap<Id, Vec<u8>>,
    dirs: HashMap<Id, Vec<(String, Id)>>,
}

/// The part of the unsynced data that survives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    /// Nothing survives.
    Nothing,
    /// Names survive, but not content.
    Names,
    /// Content survives, but not names.
    Content,
}

impl Disk {
    /// Creates a model in which everything in the workspace is synced.
    fn of(root: &Path) -> Self {
        let mut disk = Self::default();
        disk.take_in(root);
        disk
    }

    fn take_in(&mut self, path: &Path) {
        if path.is_dir() {
            self.sync(path);
            fs::read_dir(path).unwrap().for_each(|it| self.take_in(&it.unwrap().path()));
        } else {
            self.sync(path);
        }
    }

    fn sync(&mut self, path: &Path) {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
            let named = |it: fs::DirEntry| (it.file_name().into_string().unwrap(), id(&it.path()));
            self.dirs.insert(id(path), entries.map(named).collect());
        } else {
            self.contents.insert(id(path), fs::read(path).unwrap());
        }
    }

    /// Builds the workspace as it is after the power failure, in the directory `to`.
    fn restore(&self, root: &Path, left: Left, to: &Path) {
        let now = Self::of(root);
        let names = if left == Left::Names { &now.dirs } else { &self.dirs };
        let mut contents = self.contents.clone();
        if left == Left::Content {
            contents.extend(now.contents);
        }
        write(id(root), names, &contents, &now.dirs, to);
    }
}

fn write(
    dir: Id,
    names: &HashMap<Id, Vec<(String, Id)>>,
    contents: &HashMap<Id, Vec<u8>>,
    dirs: &HashMap<Id, Vec<(String, Id)>>,
    to: &Path,
) {
    fs::create_dir_all(to).unwrap();
    for (name, id) in names.get(&dir).into_iter().flatten() {
        let to = to.join(name);
        if names.contains_key(id) || dirs.contains_key(id) {
            write(*id, names, contents, dirs, &to);
        } else {
            // A directory entry that survives the power failure without its data becomes an empty file.
            fs::write(to, contents.get(id).map_or(&[][..], Vec::as_slice)).unwrap();
        }
    }
}

fn id(path: &Path) -> Id {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.ino(), metadata.created().unwrap())
}

/// The workspace as it is before the power failure.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        create_stage(&dir.path().join("stage"));
        Self { dir }
    }

    fn workspace(&self) -> PathBuf {
        self.dir.path().join("stage")
    }

    /// Runs `act` up to each write or sync in turn, and calls `check` with the workspace as it is after a power failure
    /// at that point. Returns the number of points.
    fn cut(&self, act: impl Fn(&Gate), check: impl Fn(&Path, IsDone, &str)) -> usize {
        for point in 1.. {
            let root = self.dir.path().join("live");
            copy_workspace(&self.workspace(), &root);
            let state = Arc::new(Mutex::new((Disk::of(&root), 0, String::new())));
            let (hooked, live) = (state.clone(), root.clone());
            let hook = move |what: &'static str, path: &str| {
                let mut state = hooked.lock().unwrap();
                state.1 += 1;
                if state.1 == point {
                    state.2 = format!("{what} {path}");
                    drop(state);
                    resume_unwind(Box::new("power failure"));
                }
                if what.starts_with("sync a ") {
                    state.0.sync(&live.join(path));
                }
            };
            let run = || act(&Gate::open_with_hook(&root, hook).unwrap());
            let is_done = if catch_unwind(AssertUnwindSafe(run)).is_ok() {
                IsDone::Yes
            } else {
                IsDone::Perhaps
            };
            let (disk, _, ws) = state.lock().unwrap().clone();
            for left in [Left::Nothing, Left::Names, Left::Content] {
                let start = self.dir.path().join("start");
                disk.restore(&root, left, &start);
                check(&start, is_done, &format!("{left:?} left, at {point}: {ws}"));
                fs::remove_dir_all(&start).unwrap();
            }
            fs::remove_dir_all(&root).unwrap();
            if is_done == IsDone::Yes {
                return point - 1;
            }
        }
        unreachable!("one of the writes is the last")
    }
}

/// Whether the operation returned before the power failure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum IsDone {
    Yes,
    Perhaps,
}

/// Like [`support::check_all_or_none`], and checks that no accepted set is lost.
#[track_caller]
fn check_all_or_none(start: &Path, is_done: IsDone, what: &str) -> (Gate, bool) {
    let (gate, is_new) = support::check_all_or_none(start, what);
    assert!(is_new || is_done == IsDone::Perhaps, "{what}: an accepted set is lost");
    (gate, is_new)
}

#[test]
fn accepted_sets_are_applied_completely_or_not_at_all() {
    let stage = Stage::new();
    let gate = Gate::open(stage.workspace()).unwrap();
    let (set, fingerprint) = three_changes(&gate);
    let n_points = stage.cut(
        |gate| gate.accept(&set, fingerprint, "p").unwrap(),
        |start, is_done, what| {
            let (gate, is_new) = check_all_or_none(start, is_done, what);
            assert_eq!(start.join("new/made.py").exists(), is_new, "{what}");
            assert_eq!(start.join("src/removed.py").exists(), !is_new, "{what}");
            assert_eq!(gate.pending().unwrap().len(), usize::from(!is_new), "{what}");
            if is_new {
                gate.undo(&set, "p").unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(fs::read_to_string(start.join("src/removed.py")).unwrap(), OLD);
                assert!(!start.join("new").exists(), "{what}");
            } else {
                gate.accept(&set, fingerprint, "p")
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        },
    );
    assert!(n_points > 30, "{n_points}");
}

/// A power failure at any point may lose work in progress, but must not block the gate.
#[test]
fn the_gate_works_after_a_power_failure_at_any_point() {
    let stage = Stage::new();
    Gate::open(stage.workspace()).unwrap();
    let cycle = |gate: &Gate, content: &str| -> Result<Decision, Error> {
        let worker = gate.worker("w")?;
        let draft = worker.request(&DraftRequest::edit("src/edited.py", "t"))?;
        worker.write(&draft.draft_path, content)?;
        let set = worker.submit(&Submission::of(&draft, "x"))?.set;
        Ok(gate.judge(&set)?.decision)
    };
    let n_points = stage.cut(
        |gate| assert_eq!(cycle(gate, &with_line(OLD)).unwrap(), Decision::Accept),
        |start, is_done, what| {
            let (gate, is_new) = check_all_or_none(start, is_done, what);
            gate.pending().unwrap();
            if is_new {
                let accepted =
                    gate.records().unwrap().into_iter().find(|it| it.event == "accepted");
                let set = accepted.unwrap().more["set"].as_str().unwrap().to_owned();
                gate.undo(&set, "p").unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(fs::read_to_string(start.join("src/edited.py")).unwrap(), OLD, "{what}");
            }
            for (set, judged) in gate.judge_all().unwrap() {
                // A set whose content was lost is reported and does not block others.
                assert!(judged.is_ok() || is_empty(start, &set), "{what}: {judged:?}");
            }
            let worker = gate.worker("w").unwrap();
            let is_waiting = matches!(
                worker.request(&DraftRequest::edit("src/edited.py", "t")),
                Err(Error::AlreadySubmitted { .. })
            );
            if !is_waiting {
                let more = with_line(&fs::read_to_string(start.join("src/edited.py")).unwrap());
                let again = cycle(&gate, &more);
                assert_eq!(
                    again.unwrap_or_else(|error| panic!("{what}: {error}")),
                    Decision::Accept,
                    "{what}"
                );
            }
            assert!(
                !is_waiting || !gate.pending().unwrap().is_empty() || what.starts_with("Names"),
                "{what}"
            );
            gate.prune_before(i64::MAX).unwrap();
            gate.verify().unwrap();
        },
    );
    assert!(n_points > 40, "{n_points}");
}

fn is_empty(start: &Path, set: &str) -> bool {
    fs::metadata(start.join(format!("_handoff/gate/sets/{set}.json"))).is_ok_and(|it| it.len() == 0)
}

/// After a power failure, it must still be possible to review and accept escalated sets.
#[test]
fn escalated_sets_survive_a_power_failure() {
    let stage = Stage::new();
    let contract = r#"{"draft_gate": {"preview": "always"}}"#;
    let gate = Gate::open(stage.workspace()).unwrap();
    fs::write(stage.workspace().join("_handoff/TASK_CONTRACT.json"), contract).unwrap();
    let worker = gate.worker("w").unwrap();
    stage.cut(
        |gate| {
            let worker = gate.worker("w").unwrap();
            let draft = worker.request(&DraftRequest::edit("src/edited.py", "t")).unwrap();
            worker.write(&draft.draft_path, &with_line(OLD)).unwrap();
            let set = worker.submit(&Submission::of(&draft, "x")).unwrap().set;
            assert_eq!(gate.judge(&set).unwrap().decision, Decision::Escalate);
        },
        |start, is_done, what| {
            let gate = Gate::open(start).unwrap_or_else(|error| panic!("{what}: {error}"));
            gate.verify().unwrap();
            let waiting = gate.pending().unwrap().pop();
            assert!(waiting.is_some() || is_done == IsDone::Perhaps, "{what}");
            if let Some(waiting) = waiting {
                let fingerprint = gate.inspect(&waiting.set).unwrap().fingerprint;
                gate.accept(&waiting.set, fingerprint, "p")
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(
                    fs::read_to_string(start.join("src/edited.py")).unwrap(),
                    with_line(OLD)
                );
            }
        },
    );
    assert!(worker.inbox("t", None).unwrap().is_empty(), "the original workspace is unchanged");
}

/// A rejection that was reported must survive a power failure, together with the rejected content.
#[test]
fn rejected_drafts_survive_and_can_be_restored() {
    let stage = Stage::new();
    let gate = Gate::open(stage.workspace()).unwrap();
    let worker = gate.worker("w").unwrap();
    let draft = worker.request(&DraftRequest::edit("src/edited.py", "t")).unwrap();
    worker.write(&draft.draft_path, "gone\n").unwrap();
    let set = worker.submit(&Submission::of(&draft, "x")).unwrap().set;
    let fingerprint = gate.judge(&set).unwrap().fingerprint;
    stage.cut(
        |gate| gate.reject(&set, fingerprint, "no", "p").unwrap(),
        |start, is_done, what| {
            let gate = Gate::open(start).unwrap_or_else(|error| panic!("{what}: {error}"));
            gate.verify().unwrap();
            let is_rejected = gate.pending().unwrap().is_empty();
            assert!(is_rejected || is_done == IsDone::Perhaps, "{what}");
            if is_rejected {
                let restore =
                    DraftRequest { restore: true, ..DraftRequest::edit("src/edited.py", "t") };
                let worker = gate.worker("w").unwrap();
                let draft =
                    worker.request(&restore).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(worker.read(&draft.draft_path).unwrap().content, "gone\n", "{what}");
            } else {
                gate.reject(&set, fingerprint, "no", "p").unwrap();
            }
        },
    );
    let blob = Digest::of(b"gone\n").to_string();
    assert!(stage.workspace().join("_handoff/gate/blobs").join(blob).exists());
}
