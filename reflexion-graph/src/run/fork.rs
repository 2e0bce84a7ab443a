//! Support for forking a session: the new session starts with copies of the first attempts of another session, without
//! paying for them again.

use std::{fs, io};

use app_support::files::FileError;

use super::{Manifest, Report, Run, RunError};
use crate::{failure::Attempt, job::JobError};

impl Manifest {
    /// Checks that the job is valid and allows at least one attempt in addition to the earlier ones.
    pub fn check(&self) -> Result<(), JobError> {
        self.job.check()?;
        let earlier_attempts = self.earlier_attempts.len();
        if earlier_attempts >= self.job.max_attempts as usize {
            let least = earlier_attempts + 1;
            return Err(JobError(format!(
                "the number of attempts is {}, but earlier attempts count too ({earlier_attempts} so far); allow at \
                 least {least}",
                self.job.max_attempts
            )));
        }
        Ok(())
    }
}

impl Run {
    /// Reads the result of a complete session.
    pub fn report(&self) -> Result<Report, RunError> {
        let path = self.dir.join("result.json");
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(RunError::Unfinished(self.dir.clone()))
            }
            read => {
                let bytes = read.map_err(FileError::at(&path))?;
                let report = serde_json::from_slice(&bytes).map_err(io::Error::from);
                Ok(report.map_err(FileError::at(&path))?)
            }
        }
    }

    /// Returns the attempts before attempt `at`, for a fork that repeats attempt `at`. If all attempts failed, `at` may
    /// be one more than the number of attempts, so that the fork makes an additional attempt.
    pub fn attempts_before(&self, at: u32) -> Result<Vec<Attempt>, RunError> {
        let report = self.report()?;
        let most = report.history.len() as u32 + u32::from(!report.outcome.success);
        if !(1..=most).contains(&at) {
            return Err(RunError::NoAttempt { dir: self.dir.clone(), at, most });
        }
        Ok(report.history.into_iter().take(at as usize - 1).collect())
    }
}
