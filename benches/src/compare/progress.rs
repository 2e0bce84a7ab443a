//! Stores the results of completed workloads in a file, so that an interrupted run can be resumed.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{
    cell::{Cell, Outcome},
    peer::Peer,
    workloads::Workload,
};

/// The completed workloads of a run, and the file that contains them.
#[derive(Debug)]
pub struct Progress {
    path: PathBuf,
    saved: Saved,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Saved {
    run: Run,
    /// Duration of the run so far.
    duration: Duration,
    workloads: Vec<SavedWorkload>,
}

/// Properties of a run that its results depend on. A run with other values cannot be resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Whether the run measures everything that is published.
    full: bool,
    quick: bool,
    /// When the benchmark was built.
    built: Option<SystemTime>,
    /// Versions of the peers.
    versions: String,
    /// When each file of the peers' programs was last modified.
    modified: Vec<SystemTime>,
}

impl Run {
    /// Describes a run of this program. `versions` describes the versions of the peers.
    pub fn new(full: bool, quick: bool, peers: &[Peer], versions: &str) -> io::Result<Self> {
        let built = Some(env::current_exe()?.metadata()?.modified()?);
        let modified = |it: &OsString| fs::metadata(it).ok()?.modified().ok();
        let files = peers.iter().flat_map(Peer::files);
        let modified = files.filter_map(modified).collect();
        Ok(Self { full, quick, built, versions: versions.to_owned(), modified })
    }

    /// Returns the name of the file with the progress. Other runs must not replace the progress of a full run.
    fn file_name(&self) -> &'static str {
        if self.full { "progress-full.json" } else { "progress.json" }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SavedWorkload {
    name: String,
    cells: Vec<SavedCell>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SavedCell {
    peer: String,
    size: usize,
    outcome: Outcome,
}

impl Progress {
    /// Starts a run, or resumes the one whose file is in the directory. A run with other properties is not resumed.
    pub fn open(dir: &Path, run: Run, resume: bool) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(run.file_name());
        let mut saved = Saved { run, ..Saved::default() };
        if resume {
            match read(&path)? {
                Some(found) if found.run == saved.run => saved = found,
                Some(_) => eprintln!(
                    "the interrupted run is not resumed, because the benchmark was rebuilt, `--quick` differs or \
                     a peer has changed; a new run starts"
                ),
                None => eprintln!("there is no interrupted run to resume"),
            }
        }
        Ok(Self { path, saved })
    }

    /// Returns how long the run took before it was resumed.
    pub fn duration(&self) -> Duration {
        self.saved.duration
    }

    /// Returns the cells of a workload that is complete.
    pub fn cells(&self, workload: &'static Workload, peers: &[Peer]) -> Option<Vec<Cell>> {
        let saved = self.saved.workloads.iter().find(|it| it.name == workload.name)?;
        let cell = |it: &SavedCell| {
            let peer = peers.iter().find(|peer| peer.name == it.peer)?;
            let (size, outcome) = (it.size, it.outcome.clone());
            Some(Cell { peer: peer.name, kind: peer.kind, workload, size, outcome })
        };
        saved.cells.iter().map(cell).collect()
    }

    /// Stores the cells of a workload and the duration of the whole run.
    pub fn add(
        &mut self,
        workload: &Workload,
        cells: &[Cell],
        duration: Duration,
    ) -> io::Result<()> {
        let cell = |it: &Cell| SavedCell {
            peer: it.peer.to_owned(),
            size: it.size,
            outcome: it.outcome.clone(),
        };
        let cells = cells.iter().map(cell).collect();
        self.saved.workloads.push(SavedWorkload { name: workload.name.to_owned(), cells });
        self.saved.duration = duration;
        // An interrupted write must not destroy the file.
        let new = self.path.with_extension("new");
        fs::write(&new, serde_json::to_vec(&self.saved)?)?;
        fs::rename(new, &self.path)
    }

    /// Deletes the file of a complete run.
    pub fn finish(self) -> io::Result<()> {
        match fs::remove_file(self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn read(path: &Path) -> io::Result<Option<Saved>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{cell::sample_cells, peer::peers};

    fn quick(quick: bool) -> Run {
        Run { quick, ..Run::default() }
    }

    #[test]
    fn completed_workloads_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (cells, peers) = (&sample_cells()[..2], peers().unwrap());
        let workload = cells[0].workload;
        let mut run = Progress::open(dir.path(), quick(false), false).unwrap();
        assert!(run.cells(workload, &peers).is_none());
        run.add(workload, cells, Duration::from_secs(60)).unwrap();

        let resumed = Progress::open(dir.path(), quick(false), true).unwrap();
        assert_eq!(resumed.duration(), Duration::from_secs(60));
        let kept = resumed.cells(workload, &peers).expect("the workload is complete");
        assert_eq!(format!("{kept:?}"), format!("{cells:?}"));
        let other = Workload::named("fan-out").expect("the workload exists");
        assert!(resumed.cells(other, &peers).is_none());
    }

    #[test]
    fn only_the_same_run_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let (cells, peers) = (sample_cells(), peers().unwrap());
        let workload = cells[0].workload;
        let mut run = Progress::open(dir.path(), quick(false), false).unwrap();
        run.add(workload, &cells[..2], Duration::ZERO).unwrap();
        let peer_updated = Run { versions: "2".to_owned(), ..Run::default() };
        let peer_rebuilt = Run { modified: vec![SystemTime::UNIX_EPOCH], ..Run::default() };
        for (other, resume) in
            [(quick(true), true), (quick(false), false), (peer_updated, true), (peer_rebuilt, true)]
        {
            let other = Progress::open(dir.path(), other, resume).unwrap();
            assert!(other.cells(workload, &peers).is_none());
        }
        run.finish().unwrap();
        let none = Progress::open(dir.path(), quick(false), true).unwrap();
        assert!(none.cells(workload, &peers).is_none());
    }

    #[test]
    fn other_runs_keep_the_progress_of_a_full_run() {
        let dir = tempfile::tempdir().unwrap();
        let (cells, peers) = (sample_cells(), peers().unwrap());
        let workload = cells[0].workload;
        let full = || Run { full: true, ..Run::default() };
        let mut run = Progress::open(dir.path(), full(), false).unwrap();
        run.add(workload, &cells[..2], Duration::ZERO).unwrap();

        let mut other = Progress::open(dir.path(), quick(false), false).unwrap();
        other.add(workload, &cells[..2], Duration::ZERO).unwrap();
        other.finish().unwrap();
        let resumed = Progress::open(dir.path(), full(), true).unwrap();
        assert!(resumed.cells(workload, &peers).is_some());
    }

    #[test]
    fn runs_store_the_modification_times_of_the_peers_programs() {
        let run = Run::new(true, false, &peers().unwrap(), "1").unwrap();
        // The first two peers, the engine and the handwritten code, are parts of this program.
        assert_eq!(run.modified[..2], [run.built.unwrap(); 2]);
    }
}
