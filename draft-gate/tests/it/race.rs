//! Swaps directories, files and links while four workers are active. Nothing outside the workspace may be accessed.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use draft_gate::{DraftRequest, Submission};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use test_support::is_nightly;

use crate::support::{OLD, TestWorkspace, with_line};

#[test]
fn swapped_links_never_lead_outside() {
    let ws = Arc::new(TestWorkspace::new());
    for number in 0..4 {
        ws.put(&format!("src/f{number}.py"), OLD);
    }
    symlink(ws.outside(), ws.path("link")).unwrap();
    symlink(ws.outside(), ws.path("_handoff/link")).unwrap();
    symlink(ws.outside().join("a.py"), ws.path("_handoff/drafts/planted")).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let n_swaps = Arc::new(AtomicUsize::new(0));
    let swapper = {
        let (ws, is_over, n_swaps) = (ws.clone(), is_over.clone(), n_swaps.clone());
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                swap(&ws.path("src"), &ws.path("link"));
                swap(&ws.path("_handoff/drafts"), &ws.path("_handoff/link"));
                swap(
                    &ws.path("_handoff/drafts/f0.py.t.draft"),
                    &ws.path("_handoff/drafts/planted"),
                );
                n_swaps.fetch_add(1, Ordering::Relaxed);
                // Pause now and then, so that the workers can make progress.
                if n_swaps.load(Ordering::Relaxed).is_multiple_of(50) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        })
    };
    let end = Instant::now() + Duration::from_secs(if is_nightly() { 10 } else { 2 });
    let steps = Arc::new(Steps::default());
    let workers: Vec<_> = (0..4)
        .map(|number| {
            let (ws, steps) = (ws.clone(), steps.clone());
            thread::spawn(move || work(&ws, number, end, &steps))
        })
        .collect();
    workers.into_iter().for_each(|it| it.join().unwrap());
    is_over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    put_back(&ws);
    ws.check_outside();
    ws.gate.verify().unwrap();
    println!("{} swaps, {steps:?}", n_swaps.load(Ordering::Relaxed));
}

/// Number of steps of all workers, by result.
#[derive(Debug, Default)]
struct Steps {
    done: AtomicUsize,
    refused: AtomicUsize,
}

impl Steps {
    fn count(&self, is_done: bool) {
        let steps = if is_done { &self.done } else { &self.refused };
        steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether some steps have succeeded and some were refused. Otherwise, the test would be meaningless.
    fn suffice(&self) -> bool {
        [&self.done, &self.refused].into_iter().all(|it| it.load(Ordering::Relaxed) > 0)
    }
}

/// Works on one file until `end`, or longer if by then no step has succeeded or none was refused.
fn work(ws: &TestWorkspace, number: usize, end: Instant, steps: &Steps) {
    let name = format!("w{number}");
    let worker = ws.gate.worker(&name).unwrap();
    let path = format!("src/f{number}.py");
    while Instant::now() < end || !steps.suffice() {
        let Ok(draft) = worker.request(&DraftRequest::edit(&path, "t")) else {
            steps.count(false);
            continue;
        };
        steps.count(worker.write(&draft.draft_path, &with_line(OLD)).is_ok());
        if let Ok(read) = worker.read(&draft.draft_path) {
            assert!(!read.content.contains("must not be read"), "a file outside was read");
        }
        let submitted = worker.submit(&Submission::of(&draft, "x"));
        steps.count(submitted.is_ok_and(|it| ws.gate.judge(&it.set).is_ok()));
    }
}

fn swap(one: &Path, other: &Path) {
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}

/// Moves the swapped directories back to their original places.
fn put_back(ws: &TestWorkspace) {
    for (dir, link) in [("src", "link"), ("_handoff/drafts", "_handoff/link")] {
        if fs::symlink_metadata(ws.path(dir)).unwrap().is_symlink() {
            swap(&ws.path(dir), &ws.path(link));
        }
    }
}
