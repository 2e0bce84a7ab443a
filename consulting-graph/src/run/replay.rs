//! Repeating a run from its recording, and seeing that it comes to the same, byte for byte.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use graph_trace::Trace;
use llm::RecordMode;

use super::{Branch, CALLS, Ended, Going, Manifest, REVIEWED, Run, RunProblem, files};
use crate::{debates::HeldIn, event::Numbered, report::Report};

/// A run that was repeated.
#[derive(Debug)]
pub struct Replayed {
    /// Where what it came to lies.
    pub folder: PathBuf,
    /// The files that were compared with the run's, all equal.
    pub files: Vec<String>,
    /// What it came to.
    pub report: Box<Report>,
    /// What it did, step by step.
    pub traces: Vec<(String, Trace)>,
}

impl Run {
    /// Repeats the run in another folder, without a call to anybody. Where its debates were held is taken from the run
    /// and not repeated: any sandbox will do.
    pub async fn replay(
        &self,
        folder: impl Into<PathBuf>,
        going: Going,
        tell: impl FnMut(&Numbered) + Send,
    ) -> Result<Replayed, RunProblem> {
        if !self.folder.join("report.json").is_file() {
            let problem = "the run is not at its end; resume it first".to_owned();
            return Err(RunProblem::NoPlace(problem));
        }
        let folder = folder.into();
        let going = Going { calls: RecordMode::Replay, reviewed: None, ..going };
        // Where the debates were held is a fact of the run's state; what its report says of it is compared.
        let held_in = self.read_state().await?.held_in;
        let run = self.again(&self.manifest, &folder, &going, &held_in).await?;
        let ended = run.go_as(Going { traced: true, ..going }, held_in, tell).await?;
        let (report, traces) = done(ended)?;
        let files =
            BTreeSet::from_iter(results(&self.folder)?.into_iter().chain(results(&folder)?));
        let same = |name: &String| {
            fs::read(self.folder.join(name)).ok() == fs::read(folder.join(name)).ok()
        };
        let differing: Vec<String> = files.iter().filter(|it| !same(it)).cloned().collect();
        if !differing.is_empty() {
            return Err(RunProblem::Diverged(differing));
        }
        Ok(Replayed { folder, files: files.into_iter().collect(), report, traces })
    }

    /// A run that is as this one was at its beginning. One that branched off begins with the run it branched off from.
    async fn again(
        &self,
        manifest: &Manifest,
        folder: &Path,
        going: &Going,
        held_in: &[HeldIn],
    ) -> Result<Self, RunProblem> {
        let Some(branch) = &manifest.branch else {
            let run = Self::create(folder, manifest.given.clone())?;
            for name in [CALLS, REVIEWED] {
                files::copy(&self.folder.join(name), &folder.join(name))?;
            }
            return Ok(run);
        };
        let Branch { from, at, only, set, calls } = &**branch;
        let origin = folder.join("origin");
        let run = Box::pin(self.again(from, &origin, going, held_in)).await?;
        match run.go_as(going.clone(), held_in.to_vec(), |_| {}).await {
            // It need not have come to its end: what is missing lies behind the place, or is missed there.
            Ok(_) | Err(RunProblem::NotRecorded(_) | RunProblem::Run(_)) => {}
            Err(problem) => return Err(problem),
        }
        let at = at.parse().map_err(RunProblem::NoPlace)?;
        let inner = folder.join("fork");
        let mut fork = run.fork(&inner, manifest.given.run_id.clone(), at, *only, set).await?;
        // The recording is the whole one here, and not what the origin had by then.
        if let Some(branch) = &mut fork.manifest.branch {
            branch.calls = *calls;
        }
        for name in [CALLS, REVIEWED] {
            files::copy(&self.folder.join(name), &inner.join(name))?;
        }
        fork.moved(folder, &inner)
    }

    /// The run in another folder.
    fn moved(mut self, to: &Path, from: &Path) -> Result<Self, RunProblem> {
        let entries = fs::read_dir(from).and_then(|it| it.collect::<Result<Vec<_>, io::Error>>());
        let entries =
            entries.map_err(|source| RunProblem::File { path: from.to_owned(), source })?;
        for entry in entries {
            let at = to.join(entry.file_name());
            fs::rename(entry.path(), &at)
                .map_err(|source| RunProblem::File { path: at, source })?;
        }
        to.clone_into(&mut self.folder);
        Ok(self)
    }
}

fn done(ended: Ended) -> Result<(Box<Report>, Vec<(String, Trace)>), RunProblem> {
    match ended {
        Ended::Done { report, traces, .. } => Ok((report, traces)),
        Ended::Review(_) => Err(RunProblem::NoPlace("the run waits for a review".to_owned())),
    }
}

/// The files that say what a run came to, by their paths in its folder.
fn results(folder: &Path) -> Result<Vec<String>, RunProblem> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        let at = folder.join(&inner);
        let entries = fs::read_dir(&at).and_then(|it| it.collect::<Result<Vec<_>, io::Error>>());
        for entry in entries.map_err(|source| RunProblem::File { path: at, source })? {
            let path = inner.join(entry.file_name());
            let name = path.to_string_lossy().into_owned();
            if entry.path().is_dir() {
                if name.starts_with("logs") {
                    folders.push(path);
                }
            } else if is_result(&name) {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What a run is given, keeps for itself, or tells while it runs is no result.
fn is_result(name: &str) -> bool {
    let kinds = [".md", ".html", ".csv"];
    name == "report.json"
        || (name.starts_with("logs") && name.ends_with(".json"))
        || kinds.iter().any(|it| name.ends_with(it))
}
