//! A temporary workspace, with files outside it that must stay untouched.

use std::{
    fs,
    path::{Path, PathBuf},
};

use draft_gate::{Digest, Draft, DraftRequest, Gate, Judgement, Submission, SubmissionReceipt};
use tempfile::TempDir;

pub(crate) const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

/// Content of the file outside the workspace.
const OUTSIDE_TEXT: &str = "outside: must not be read or written\n";

pub(crate) struct TestWorkspace {
    dir: TempDir,
    pub(crate) gate: Gate,
}

impl TestWorkspace {
    /// Creates a workspace that contains `src/a.py`, and next to the workspace a directory with a file.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("ws/src")).unwrap();
        for outside in ["outside", "ws-evil"] {
            fs::create_dir(dir.path().join(outside)).unwrap();
            fs::write(dir.path().join(outside).join("a.py"), OUTSIDE_TEXT).unwrap();
        }
        fs::write(dir.path().join("ws/src/a.py"), OLD).unwrap();
        let gate = Gate::open(dir.path().join("ws")).unwrap();
        Self { dir, gate }
    }

    pub(crate) fn with_contract(contract: &str) -> Self {
        let ws = Self::new();
        ws.put("_handoff/TASK_CONTRACT.json", contract);
        ws
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("ws").join(path)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Creates a draft with this content, but does not submit it.
    pub(crate) fn draft(&self, request: &DraftRequest, content: &str) -> Draft {
        let worker = self.gate.worker("w").unwrap();
        let draft = worker.request(request).unwrap();
        worker.write(&draft.draft_path, content).unwrap();
        draft
    }

    pub(crate) fn submit(&self, draft: &Draft) -> SubmissionReceipt {
        self.gate.worker("w").unwrap().submit(&Submission::of(draft, "a change")).unwrap()
    }

    /// Submits and judges an edit to a file, and returns the judgement.
    pub(crate) fn edit(&self, path: &str, content: &str) -> Judgement {
        let draft = self.draft(&DraftRequest::edit(path, "t"), content);
        self.gate.judge(&self.submit(&draft).set).unwrap()
    }

    pub(crate) fn create(&self, path: &str, content: &str) -> Judgement {
        let draft = self.draft(&DraftRequest::create(path, "t"), content);
        self.gate.judge(&self.submit(&draft).set).unwrap()
    }

    /// Submits edits to `src/b.py` and `src/a.py` as one set.
    pub(crate) fn submit_two_edits(&self) -> String {
        self.put("src/b.py", OLD);
        let first = self.draft(&DraftRequest::edit("src/b.py", "t"), &with_line(OLD));
        let worker = self.gate.worker("w").unwrap();
        worker.submit(&Submission::of(&first, "x").more_to_come()).unwrap();
        self.submit(&self.draft(&DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set
    }

    pub(crate) fn propose_deletion(&self, path: &str) -> Judgement {
        let draft =
            self.gate.worker("w").unwrap().request(&DraftRequest::delete(path, "t")).unwrap();
        self.gate.judge(&self.submit(&draft).set).unwrap()
    }

    /// Asserts that nothing outside the workspace was changed or added.
    #[track_caller]
    pub(crate) fn check_outside(&self) {
        for outside in ["outside", "ws-evil"] {
            let dir = self.dir.path().join(outside);
            let names: Vec<_> =
                fs::read_dir(&dir).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(names, ["a.py"], "{outside}");
            assert_eq!(fs::read_to_string(dir.join("a.py")).unwrap(), OUTSIDE_TEXT);
        }
        let names: Vec<_> =
            fs::read_dir(self.dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    /// Returns the number of log lines with this event.
    pub(crate) fn count(&self, event: &str) -> usize {
        self.gate.records().unwrap().iter().filter(|it| it.event == event).count()
    }
}

/// Creates a workspace with the two files that [`three_changes`] edits and deletes.
pub(crate) fn create_stage(workspace: &Path) {
    fs::create_dir_all(workspace.join("src")).unwrap();
    fs::write(workspace.join("src/edited.py"), OLD).unwrap();
    fs::write(workspace.join("src/removed.py"), OLD).unwrap();
}

/// Copies a workspace with all its metadata.
pub(crate) fn copy_workspace(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

/// Returns the text with one more line at the end.
pub(crate) fn with_line(text: &str) -> String {
    format!("{text}seven\n")
}

/// Returns all regular files beneath a directory.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Submits a set that edits one file, creates one and deletes one. The set is escalated. Returns its id and
/// fingerprint.
pub(crate) fn three_changes(gate: &Gate) -> (String, Digest) {
    let worker = gate.worker("w").unwrap();
    let edited = worker.request(&DraftRequest::edit("src/edited.py", "t")).unwrap();
    worker.write(&edited.draft_path, &with_line(OLD)).unwrap();
    worker.submit(&Submission::of(&edited, "x").more_to_come()).unwrap();
    let made = worker.request(&DraftRequest::create("new/made.py", "t")).unwrap();
    worker.write(&made.draft_path, "made\n").unwrap();
    worker.submit(&Submission::of(&made, "x").more_to_come()).unwrap();
    let removed = worker.request(&DraftRequest::delete("src/removed.py", "t")).unwrap();
    let set = worker.submit(&Submission::of(&removed, "x")).unwrap().set;
    let fingerprint = gate.judge(&set).unwrap().fingerprint;
    (set, fingerprint)
}

/// Checks that every file is intact before recovery. Checks that after recovery either all files are old or all are
/// new, as recorded in the log.
#[track_caller]
pub(crate) fn check_all_or_none(workspace: &Path, what: &str) -> (Gate, bool) {
    let edited = fs::read_to_string(workspace.join("src/edited.py")).unwrap();
    assert!(edited == OLD || edited == with_line(OLD), "{what}: {edited:?}");
    let made = fs::read_to_string(workspace.join("new/made.py")).ok();
    assert!(made.is_none() || made.as_deref() == Some("made\n"), "{what}: {made:?}");
    let gate = Gate::open(workspace).unwrap_or_else(|error| panic!("{what}: {error}"));
    let verified = gate.verify();
    assert!(verified.is_ok(), "{what}: {verified:?}");
    let is_new = fs::read_to_string(workspace.join("src/edited.py")).unwrap() == with_line(OLD);
    let count = gate.records().unwrap().iter().filter(|it| it.event == "accepted").count();
    assert_eq!(count, usize::from(is_new), "{what}");
    (gate, is_new)
}
