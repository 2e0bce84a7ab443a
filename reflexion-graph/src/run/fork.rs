//! Beginning anew from an attempt of a session: those before it are kept, and cost nothing again.

use std::{fs, io};

use super::{Manifest, Report, Run, RunProblem, with};
use crate::{failure::Attempt, job::BadJob};

impl Manifest {
    /// Refuses what cannot be done, or should not.
    pub fn check(&self) -> Result<(), BadJob> {
        self.job.check()?;
        let kept = self.kept.len();
        if kept >= self.job.max_attempts as usize {
            let least = kept + 1;
            return Err(BadJob(format!(
                "attempts that are kept count too: with {kept} of them, allow {least} at least"
            )));
        }
        Ok(())
    }
}

impl Run {
    /// What it came to.
    pub fn report(&self) -> Result<Report, RunProblem> {
        let path = self.folder.join("result.json");
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(RunProblem::Unfinished(self.folder.clone()))
            }
            read => {
                let bytes = read.map_err(with(&path))?;
                serde_json::from_slice(&bytes).map_err(io::Error::from).map_err(with(&path))
            }
        }
    }

    /// Its attempts before one of them, for a session that makes that one in another way. Behind the last one that failed
    /// there may be one more.
    pub fn attempts_before(&self, at: u32) -> Result<Vec<Attempt>, RunProblem> {
        let report = self.report()?;
        let most = report.history.len() as u32 + u32::from(!report.outcome.success);
        if !(1..=most).contains(&at) {
            return Err(RunProblem::NoAttempt { folder: self.folder.clone(), at, most });
        }
        Ok(report.history.into_iter().take(at as usize - 1).collect())
    }
}
