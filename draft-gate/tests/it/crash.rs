//! Kills a process that is accepting a change set, before each of its writes and after evenly spaced delays.
//!
//! The child process is this test program, controlled by environment variables.

use std::{
    env, fs,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use draft_gate::{Digest, Gate, MessageKind};
use rustix::process::{Signal, getpid, kill_process};
use test_support::is_nightly;

use crate::support::{check_all_or_none, copy_workspace, create_stage, files, three_changes};

const WORKSPACE: &str = "DRAFT_GATE_CRASH_WORKSPACE";
const POINT: &str = "DRAFT_GATE_CRASH_POINT";
const SET: &str = "DRAFT_GATE_CRASH_SET";
const FINGERPRINT: &str = "DRAFT_GATE_CRASH_FINGERPRINT";

/// Runs in the child process. Accepts a set, and kills the process before the write whose number is in [`POINT`].
#[test]
fn child_process_entry() {
    let Ok(workspace) = env::var(WORKSPACE) else { return };
    let point: usize = env::var(POINT).unwrap().parse().unwrap();
    let n_writes = AtomicUsize::new(0);
    let hook = move |_: &'static str, _: &str| {
        if n_writes.fetch_add(1, Ordering::SeqCst) + 1 == point {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    };
    let gate = Gate::open_with_hook(workspace, hook).unwrap();
    let (set, fingerprint) =
        (env::var(SET).unwrap(), env::var(FINGERPRINT).unwrap().parse().unwrap());
    // The parent waits for this byte and measures its kill delays from here.
    std::io::stderr().write_all(b".").unwrap();
    // If an earlier child has already accepted the set, nothing is left to do.
    let _ = gate.accept(&set, fingerprint, "p");
}

/// A workspace with a pending set that edits one file, creates one and deletes one.
struct Stage {
    dir: tempfile::TempDir,
    set: String,
    fingerprint: Digest,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("stage");
        create_stage(&workspace);
        let gate = Gate::open(&workspace).unwrap();
        let (set, fingerprint) = three_changes(&gate);
        Self { dir, set, fingerprint }
    }

    /// Copies the workspace, so that each kill starts from the same state.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.dir.path().join(name);
        copy_workspace(&self.dir.path().join("stage"), &copy);
        copy
    }

    fn start(&self, workspace: &Path, point: usize) -> Child {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "crash::child_process_entry", "--nocapture"])
            .env(WORKSPACE, workspace)
            .env(POINT, point.to_string())
            .env(SET, &self.set)
            .env(FINGERPRINT, self.fingerprint.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs a child and returns whether it was killed.
    fn run(&self, workspace: &Path, point: usize) -> bool {
        finish(self.start(workspace, point))
    }

    /// Checks that every file is intact before recovery. Checks that after recovery either all files are old or all are
    /// new, as recorded in the log.
    #[track_caller]
    fn check(&self, workspace: &Path, what: &str) -> bool {
        let (gate, edited) = check_all_or_none(workspace, what);
        let made = workspace.join("new/made.py").exists();
        let removed = !workspace.join("src/removed.py").exists();
        assert!(
            edited == made && made == removed,
            "{what}: edited {edited}, made {made}, removed {removed}"
        );
        let inbox = gate.inbox("w", "t", None).unwrap();
        let n_told = inbox.iter().filter(|it| it.kind == MessageKind::DraftAccepted).count();
        assert_eq!(n_told, usize::from(edited), "{what}");
        assert_eq!(gate.pending().unwrap().len(), usize::from(!edited), "{what}");
        self.check_leftovers(workspace, edited, what);
        if edited {
            gate.undo(&self.set, "p").unwrap();
        } else {
            gate.accept(&self.set, self.fingerprint, "p").unwrap();
        }
        edited
    }

    /// Checks that no temporary files remain in the workspace or in the gate's directories, and that the drafts of
    /// decided sets are removed.
    fn check_leftovers(&self, workspace: &Path, is_new: bool, what: &str) {
        let is_temporary = |it: &&PathBuf| it.to_string_lossy().contains("draft-gate-tmp");
        let left: Vec<_> = files(workspace).iter().filter(is_temporary).cloned().collect();
        assert!(left.is_empty(), "{what}: {left:?}");
        if is_new {
            let drafts = files(&workspace.join("_handoff/drafts"));
            assert!(drafts.is_empty(), "{what}: {drafts:?}");
        }
    }
}

fn finish(mut child: Child) -> bool {
    let status = child.wait().unwrap();
    let mut output = String::new();
    child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
    let was_killed = status.signal() == Some(9);
    assert!(was_killed || status.success(), "{output}");
    was_killed
}

#[test]
fn a_crash_before_any_write_leaves_old_or_new_files() {
    let stage = Stage::new();
    let (mut n_old, mut n_new) = (0, 0);
    for point in 1.. {
        let workspace = stage.copy(&format!("point-{point}"));
        let was_killed = stage.run(&workspace, point);
        let is_new = stage.check(&workspace, &format!("point {point}"));
        if is_new {
            n_new += 1
        } else {
            n_old += 1
        }
        fs::remove_dir_all(&workspace).unwrap();
        if !was_killed {
            break;
        }
    }
    println!("killed at {} points: {n_old} old, {n_new} new", n_old + n_new - 1);
    assert!(n_old > 5 && n_new > 5 && n_old + n_new > 50, "{n_old} {n_new}");
}

/// A crash during recovery must also leave either all files old or all files new.
#[test]
fn a_crash_during_recovery_leaves_old_or_new_files() {
    let stage = Stage::new();
    let step = if is_nightly() { 1 } else { 7 };
    let mut n_killed = 0;
    for first in (12..100).step_by(step) {
        let workspace = stage.copy(&format!("recovery-{first}"));
        if !stage.run(&workspace, first) {
            break;
        }
        // Opening the gate creates ten directories first, so these kill points are within the recovery.
        for second in [12, 17, 24] {
            n_killed += usize::from(stage.run(&workspace, second));
        }
        stage.check(&workspace, &format!("points {first}, 12, 17, 24"));
        fs::remove_dir_all(&workspace).unwrap();
    }
    assert!(n_killed > 5, "{n_killed}");
}

/// Waits until a child is about to accept the set.
fn wait_for_start(child: &mut Child) {
    child.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
}

#[test]
fn a_kill_at_any_time_leaves_old_or_new_files() {
    let stage = Stage::new();
    let n_kills: u32 = if is_nightly() { 1_000 } else { 20 };
    // Measure how long an undisturbed accept takes, and use the fastest of three.
    let quickest = (0..3).map(|number| {
        let workspace = stage.copy(&format!("whole-{number}"));
        let mut child = stage.start(&workspace, usize::MAX);
        wait_for_start(&mut child);
        let start = Instant::now();
        assert!(!finish(child));
        start.elapsed()
    });
    let mut whole = quickest.min().unwrap();
    let (mut n_killed, mut n_new) = (0, 0);
    for number in 0..20 * n_kills {
        let workspace = stage.copy(&format!("time-{number}"));
        let mut child = stage.start(&workspace, usize::MAX);
        wait_for_start(&mut child);
        let wait = whole * n_killed / n_kills;
        thread::sleep(wait);
        let _ = child.kill();
        if finish(child) {
            n_killed += 1;
        } else {
            // This child was faster than the measured ones, so the kill came too late and proves nothing.
            whole = whole * 9 / 10;
        }
        n_new += u32::from(stage.check(&workspace, &format!("after {wait:?}")));
        fs::remove_dir_all(&workspace).unwrap();
        if n_killed == n_kills {
            break;
        }
    }
    println!(
        "{n_killed} processes were killed while accepting, within {whole:?}; {n_new} of all results are new"
    );
    assert_eq!(n_killed, n_kills);
}
