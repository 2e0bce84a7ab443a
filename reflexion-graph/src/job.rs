//! A job: a task, the checks for its program, and resource limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum length of a task in characters.
pub(crate) const MAX_TASK: usize = 10_000;

/// Maximum length of a program in characters, and of the tests and the expected output in bytes.
pub(crate) const MAX_CODE: usize = 100_000;

/// A task, the checks for its program, and resource limits.
///
/// ```
/// use reflexion_graph::Job;
///
/// let job = Job::new("Calculate fibonacci(10)").expect("55");
/// assert_eq!(job.max_attempts, 3);
/// assert!(job.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    pub task: String,
    /// Assertions that are executed after the program, in another process, with access to the program's names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<String>,
    /// Output that the program must print; surrounding whitespace is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    pub max_attempts: u32,
    /// Action to take after a failed attempt.
    pub strategy: Strategy,
    /// Resource limits for each execution.
    pub limits: Limits,
}

/// Action to take after a failed attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The critic explains the failure, and the next attempt uses the explanation.
    #[default]
    Reflect,
    /// The next attempt starts from scratch, without information about the failure. Serves as a baseline for `Reflect`.
    Resample,
}

/// Resource limits for one execution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Wall-clock limit in seconds.
    pub timeout: f64,
    /// CPU time limit in seconds. If `None`, it equals `timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<f64>,
    /// Memory limit in MiB. Files that are held in memory count against it.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: 5.0, cpu_time: None, memory: 256 }
    }
}

impl Limits {
    /// Returns the wall-clock limit.
    pub(crate) fn wall(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout).unwrap_or_default()
    }

    /// Returns the CPU time limit.
    pub fn cpu(&self) -> Duration {
        let seconds = self.cpu_time.unwrap_or(self.timeout);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JobError(pub(crate) String);

impl Job {
    /// Creates a job without checks and with the default limits: three attempts, and five seconds and 256 MiB for each
    /// execution.
    pub fn new(task: impl Into<String>) -> Self {
        Self { task: task.into(), max_attempts: 3, ..Self::default() }
    }

    /// Sets the tests that are executed after the program.
    pub fn tests(mut self, tests: impl Into<String>) -> Self {
        self.tests = Some(tests.into());
        self
    }

    /// Sets the output that the program must print.
    pub fn expect(mut self, text: impl Into<String>) -> Self {
        self.expect = Some(text.into());
        self
    }

    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Checks that the task, the number of attempts, the limits and the lengths of all texts are valid.
    pub fn check(&self) -> Result<(), JobError> {
        let Limits { timeout, cpu_time, memory } = self.limits;
        let length = self.task.chars().count();
        let problem = if self.task.trim().is_empty() {
            "the task is empty; describe what the program should do".to_owned()
        } else if length > MAX_TASK {
            format!("the task has {length} characters; the maximum is {MAX_TASK}")
        } else if !(1..=10).contains(&self.max_attempts) {
            format!("the number of attempts is {}, but must be from 1 to 10", self.max_attempts)
        } else if !(0.1..=60.0).contains(&timeout) {
            format!("the timeout is {timeout} seconds, but must be from 0.1 to 60 seconds")
        } else if let Some(cpu_time) = cpu_time.filter(|it| !(0.1..=60.0).contains(it)) {
            format!("the CPU time is {cpu_time} seconds, but must be from 0.1 to 60 seconds")
        } else if !(64..=2048).contains(&memory) {
            format!("the memory is {memory} MiB, but must be from 64 to 2048 MiB")
        } else if self.tests.as_ref().is_some_and(|it| it.len() > MAX_CODE) {
            format!("the tests are longer than {MAX_CODE} bytes; shorten them")
        } else if self.expect.as_ref().is_some_and(|it| it.len() > MAX_CODE) {
            format!("the expected output is longer than {MAX_CODE} bytes; use tests instead")
        } else {
            return Ok(());
        };
        Err(JobError(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::{Job, Limits};

    #[test]
    fn invalid_jobs_are_rejected() {
        assert!(Job::new("x").check().is_ok());
        let limits = |limits| Job { limits, ..Job::new("x") };
        for bad in [
            Job::new(" "),
            Job::new("x".repeat(10_001)),
            Job::new("x").max_attempts(0),
            Job::new("x").max_attempts(11),
            limits(Limits { timeout: f64::NAN, ..Limits::default() }),
            limits(Limits { timeout: 61.0, ..Limits::default() }),
            limits(Limits { cpu_time: Some(0.0), ..Limits::default() }),
            limits(Limits { memory: 63, ..Limits::default() }),
            Job::new("x").tests("x".repeat(100_001)),
            Job::new("x").expect("x".repeat(100_001)),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
