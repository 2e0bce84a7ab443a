//! Replays a run from its recording and checks that the results are identical.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use app_support::files::{self, FileError};
use graph_trace::Trace;
use llm::RecordMode;

use super::{
    error::RunError,
    manifest::{ForkOrigin, Manifest},
    options::ResumeOptions,
    resume::RunOutcome,
    run_dir::{CALLS_FILE, REVIEWED_FILE, Run},
};
use crate::{debate_host::IsolationRecord, event::NumberedEvent, report::Report};

#[derive(Debug)]
pub struct ReplayResult {
    pub dir: PathBuf,
    /// Result files that were compared. All are identical to those of the run.
    pub files: Vec<String>,
    pub report: Box<Report>,
    /// Trace of the pipeline and of the debates inside it.
    pub trace: Box<Trace>,
}

impl Run {
    /// Replays the run in another directory, without model calls. The results do not depend on the sandbox, because the
    /// isolation in the report is taken from the original run.
    pub async fn replay(
        &self,
        dir: impl Into<PathBuf>,
        options: ResumeOptions,
        on_event: impl FnMut(&NumberedEvent) + Send,
    ) -> Result<ReplayResult, RunError> {
        self.check_recorded()?;
        if !self.dir.join("report.json").is_file() {
            let problem = "the run is not complete; resume it first".to_owned();
            return Err(RunError::InvalidRequest(problem));
        }
        let dir = dir.into();
        let options = ResumeOptions { calls: RecordMode::Replay, review: None, ..options };
        // Read the records from the state of the run, because the report is one of the files to compare.
        let records = self.read_state_copy().await?.held_in;
        let run = self.recreate(&self.manifest, &dir, &options, &records).await?;
        let outcome = run
            .resume_with_isolation(ResumeOptions { trace: true, ..options }, records, on_event)
            .await?;
        let (report, trace) = into_complete(outcome)?;
        let files =
            BTreeSet::from_iter(result_files(&self.dir)?.into_iter().chain(result_files(&dir)?));
        let same =
            |name: &String| fs::read(self.dir.join(name)).ok() == fs::read(dir.join(name)).ok();
        let differing: Vec<String> = files.iter().filter(|it| !same(it)).cloned().collect();
        if !differing.is_empty() {
            return Err(RunError::ReplayDiffers(differing));
        }
        Ok(ReplayResult { dir, files: files.into_iter().collect(), report, trace })
    }

    /// Creates a run in `dir` with the initial state of the run that `manifest` describes. If that run is a fork,
    /// replays the origin of the fork and then forks the origin again.
    async fn recreate(
        &self,
        manifest: &Manifest,
        dir: &Path,
        options: &ResumeOptions,
        records: &[IsolationRecord],
    ) -> Result<Self, RunError> {
        let Some(fork_origin) = &manifest.fork_origin else {
            let run = Self::create(dir, manifest.run_config.clone())?;
            for name in [CALLS_FILE, REVIEWED_FILE] {
                files::copy_if_exists(&self.dir.join(name), &dir.join(name))?;
            }
            return Ok(run);
        };
        let ForkOrigin { from, at, only, set, inherited_calls, .. } = &**fork_origin;
        let origin = dir.join("origin");
        let run = Box::pin(self.recreate(from, &origin, options, records)).await?;
        // Drop the calls that the fork made itself, because its origin did not make them.
        keep_calls(&origin.join(CALLS_FILE), *inherited_calls)?;
        match run.resume_with_isolation(options.clone(), records.to_vec(), |_| {}).await {
            // The origin may be incomplete. If something before the fork point is missing, the fork fails below.
            Ok(_) | Err(RunError::IncompleteRecording(_) | RunError::Execution(_)) => {}
            Err(problem) => return Err(problem),
        }
        let invalid = |problem| RunError::InvalidFile { path: self.dir.join("run.json"), problem };
        let at = at.parse().map_err(invalid)?;
        let subdir = dir.join("fork");
        let fork = run.fork(&subdir, manifest.run_config.run_id.clone(), at, *only, set).await?;
        for name in [CALLS_FILE, REVIEWED_FILE] {
            files::copy_if_exists(&self.dir.join(name), &subdir.join(name))?;
        }
        fork.move_to(dir, &subdir)
    }

    /// Moves all files of the run to another directory.
    fn move_to(mut self, to: &Path, from: &Path) -> Result<Self, RunError> {
        let entries = fs::read_dir(from).and_then(|it| it.collect::<Result<Vec<_>, io::Error>>());
        let entries = entries.map_err(FileError::at(from))?;
        for entry in entries {
            let at = to.join(entry.file_name());
            fs::rename(entry.path(), &at).map_err(FileError::at(&at))?;
        }
        to.clone_into(&mut self.dir);
        Ok(self)
    }
}

/// Removes all calls from a recording except for the first `calls`.
fn keep_calls(path: &Path, calls: usize) -> Result<(), RunError> {
    let text = files::read(path)?;
    // The first line is the header.
    let kept: String = text.split_inclusive('\n').take(calls + 1).collect();
    Ok(files::write_unsynced(path, &kept)?)
}

fn into_complete(outcome: RunOutcome) -> Result<(Box<Report>, Box<Trace>), RunError> {
    match outcome {
        RunOutcome::Complete { report, trace: Some(trace), .. } => Ok((report, trace)),
        RunOutcome::Complete { .. } => {
            Err(RunError::Internal("the replay was already complete".to_owned()))
        }
        RunOutcome::AwaitingReview(_) => {
            Err(RunError::InvalidRequest("the run is waiting for a review".to_owned()))
        }
    }
}

/// Returns the result files of a run, as paths relative to its directory.
fn result_files(dir: &Path) -> Result<Vec<String>, RunError> {
    let mut found = Vec::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(subdir) = dirs.pop() {
        let at = dir.join(&subdir);
        let entries = fs::read_dir(&at).and_then(|it| it.collect::<Result<Vec<_>, io::Error>>());
        for entry in entries.map_err(FileError::at(&at))? {
            let path = subdir.join(entry.file_name());
            let name = path.to_string_lossy().into_owned();
            if entry.path().is_dir() {
                if name.starts_with("logs") {
                    dirs.push(path);
                }
            } else if is_result(&name) {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a file is a result, as opposed to an input, an internal file or an execution log.
fn is_result(name: &str) -> bool {
    let kinds = [".md", ".html", ".csv"];
    name == "report.json"
        || (name.starts_with("logs") && name.ends_with(".json"))
        || kinds.iter().any(|it| name.ends_with(it))
}
