//! What is asked for: a task, how its program is judged, and what it may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest task, in characters.
pub const MAX_TASK: usize = 10_000;

/// The longest program that is run, in characters.
pub const MAX_CODE: usize = 100_000;

/// A task, how its program is judged, and what it may use.
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
    /// The task, in words.
    pub task: String,
    /// A program that is run behind the one that was written, in the same names. It fails where those are wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<String>,
    /// What the program has to print, apart from blanks around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// How often a program is written at most.
    pub max_attempts: u32,
    /// What happens after a failure.
    pub strategy: Strategy,
    /// What one execution may use.
    pub limits: Limits,
}

/// What happens after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// It is criticised, and the next attempt is told of it.
    #[default]
    Reflect,
    /// The next attempt starts afresh and knows nothing of it: what reflection is measured against.
    Resample,
}

/// What one execution may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds that it may take.
    pub timeout: f64,
    /// Seconds of processor time that it may use; as many as it may take, where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<f64>,
    /// MiB of memory, its files included.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: 5.0, cpu_time: None, memory: 256 }
    }
}

impl Limits {
    /// How long it may take.
    pub fn wall(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout).unwrap_or_default()
    }

    /// How much processor time it may use.
    pub fn cpu(&self) -> Duration {
        let seconds = self.cpu_time.unwrap_or(self.timeout);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// Why a job cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadJob(pub(crate) String);

impl Job {
    /// A task with the usual limits: three attempts, five seconds, 256 MiB.
    pub fn new(task: impl Into<String>) -> Self {
        Self { task: task.into(), max_attempts: 3, ..Self::default() }
    }

    /// Runs these tests behind every program.
    #[must_use]
    pub fn tests(mut self, tests: impl Into<String>) -> Self {
        self.tests = Some(tests.into());
        self
    }

    /// Wants this to be printed.
    #[must_use]
    pub fn expect(mut self, text: impl Into<String>) -> Self {
        self.expect = Some(text.into());
        self
    }

    /// Has so many attempts.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Refuses what cannot be done, or should not.
    pub fn check(&self) -> Result<(), BadJob> {
        let Limits { timeout, cpu_time, memory } = self.limits;
        let length = self.task.chars().count();
        let problem = if self.task.trim().is_empty() {
            "the task is empty; say what the program is to do".to_owned()
        } else if length > MAX_TASK {
            format!("the task has {length} characters; at most {MAX_TASK} are read")
        } else if !(1..=10).contains(&self.max_attempts) {
            "attempts are from 1 to 10".to_owned()
        } else if !(0.1..=60.0).contains(&timeout) {
            "the timeout is from 0.1 to 60 seconds".to_owned()
        } else if cpu_time.is_some_and(|it| !(0.1..=60.0).contains(&it)) {
            "the processor time is from 0.1 to 60 seconds".to_owned()
        } else if !(64..=2048).contains(&memory) {
            "the memory is from 64 to 2048 MiB".to_owned()
        } else if self.tests.as_ref().is_some_and(|it| it.len() > MAX_CODE) {
            format!("the tests are longer than {MAX_CODE} bytes; leave some out")
        } else if self.expect.as_ref().is_some_and(|it| it.len() > MAX_CODE) {
            format!("the expected output is longer than {MAX_CODE} bytes; check it with tests")
        } else {
            return Ok(());
        };
        Err(BadJob(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::{Job, Limits};

    #[test]
    fn what_cannot_be_done_is_refused() {
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
