//! Runs the steps of a check and prints a summary.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::Error,
    step::{Outcome, Step},
};

/// Selects which tests are run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Depth {
    Usual,
    /// All tests, including long property tests, tests that kill processes, and tests with a small real model.
    Nightly,
}

/// Steps to run, and checks that cannot run on this machine.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Stages, which run one after the other.
    pub(crate) stages: Vec<Stage>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Sequences of steps. The sequences run at the same time, and the steps of a sequence one after the other.
#[derive(Debug)]
pub(crate) struct Stage(Vec<Vec<Step>>);

/// A check that is skipped because its tool is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skipped {
    pub(crate) title: &'static str,
    pub(crate) fix: &'static str,
    /// Returns whether the tool is available now. Called after all steps, because a step may have installed the tool.
    pub(crate) is_available: fn() -> bool,
}

impl Skipped {
    /// Creates an entry for a check whose tool is not installed by any step.
    pub(crate) const fn new(title: &'static str, fix: &'static str) -> Self {
        Self { title, fix, is_available: || false }
    }
}

impl Stage {
    /// Creates a stage with one sequence of steps.
    pub(crate) fn sequence(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(vec![steps.into_iter().collect()])
    }

    /// Creates a stage whose sequences run at the same time. The steps of the first sequence print their output while
    /// they run, and the others when they have ended.
    pub(crate) fn parallel(sequences: Vec<Vec<Step>>) -> Self {
        Self(sequences)
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().flatten()
    }

    /// Runs the steps. After a failure, no other step starts.
    fn run(&self, root: &Path) -> Result<(), Error> {
        let has_failed = AtomicBool::new(false);
        let run_sequence = |steps: &[Step], is_first: bool| -> Result<(), Error> {
            for step in steps {
                if has_failed.load(Ordering::Relaxed) {
                    break;
                }
                let result = if is_first { step.run(root) } else { step.run_quietly(root) };
                result.inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let run_sequence = &run_sequence;
            let sequences = self.0.iter().enumerate();
            let threads: Vec<_> = sequences
                .map(|(idx, steps)| scope.spawn(move || run_sequence(steps, idx == 0)))
                .collect();
            threads.into_iter().try_for_each(|it| it.join().unwrap_or(Err(Error::Panicked)))
        })
    }
}

impl Plan {
    /// Creates a plan whose steps run one after the other.
    pub(crate) fn sequence(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { stages: vec![Stage::sequence(steps)], skipped: vec![] }
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(Stage::steps)
    }

    /// Runs all steps, stops at the first failure, and prints a summary.
    pub(crate) fn run(&self, root: &Path) -> Result<(), Error> {
        let start = Instant::now();
        let result = self.stages.iter().try_for_each(|stage| stage.run(root));
        print!("\n{}", summary(self, start.elapsed()));
        result
    }
}

/// Formats the outcome of each step. `total` is the duration of the whole run.
fn summary(plan: &Plan, total: Duration) -> String {
    let mut text = "Summary\n".to_owned();
    for step in plan.steps() {
        let (outcome, failed_tests): (_, &[String]) = match step.outcome() {
            Some(Outcome::Succeeded(duration)) => {
                (format!("ok      {:>12}", human(*duration)), &[])
            }
            Some(Outcome::Failed { tests }) => ("FAILED              ".to_owned(), tests),
            None => ("not run             ".to_owned(), &[]),
        };
        text += &format!("  {outcome}  {}\n", step.title());
        for test in failed_tests {
            text += &format!("    {test}\n");
        }
    }
    if plan.steps().all(|it| matches!(it.outcome(), Some(Outcome::Succeeded(_)))) {
        text += &format!("  all     {:>12}\n", human(total));
    }
    let skipped = plan.skipped.iter().filter(|it| !(it.is_available)());
    for (skipped_idx, it) in skipped.enumerate() {
        text += if skipped_idx == 0 { "Skipped\n" } else { "" };
        text += &format!("  {}: {}\n", it.title, it.fix);
    }
    text
}

fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let steps = ["format", "clippy", "tests"].map(|it| Step::cargo(it, it));
        let skipped = vec![
            Skipped { is_available: || true, ..Skipped::new("installed later", "nothing") },
            Skipped::new("licences", "cargo install it"),
        ];
        Plan { skipped, ..Plan::sequence(steps) }
    }

    #[test]
    fn summary_lists_all_durations() {
        let plan = plan();
        for (step, millis) in plan.steps().zip([40, 1_250, 125_000]) {
            step.set_outcome(Outcome::Succeeded(Duration::from_millis(millis)));
        }
        let expect = "\
Summary
  ok             0.0 s  format
  ok             1.2 s  clippy
  ok        2 min 05 s  tests
  all       1 min 40 s
Skipped
  licences: cargo install it
";
        assert_eq!(summary(&plan, Duration::from_secs(100)), expect);
    }

    #[test]
    fn summary_marks_the_failed_step() {
        let plan = plan();
        let failed =
            Outcome::Failed { tests: vec!["runs::end: a.rs:3:5: expected 1 run".to_owned()] };
        let outcomes = [Outcome::Succeeded(Duration::from_secs(1)), failed];
        plan.steps().zip(outcomes).for_each(|(step, it)| step.set_outcome(it));
        let expect = "\
Summary
  ok             1.0 s  format
  FAILED                clippy
    runs::end: a.rs:3:5: expected 1 run
  not run               tests
Skipped
  licences: cargo install it
";
        assert_eq!(summary(&plan, Duration::from_secs(100)), expect);
    }

    #[test]
    fn no_step_starts_after_a_failure() {
        let step = |title, script: &str| Step::new(title, "sh", "-c").args([script.to_owned()]);
        let fails = vec![step("fails", "exit 1"), step("after the failure", "true")];
        let stages = vec![
            Stage::parallel(vec![fails, vec![step("at the same time", "true")]]),
            Stage::sequence([step("next stage", "true")]),
        ];
        let plan = Plan { stages, skipped: vec![] };
        let result = plan.run(Path::new("."));
        assert!(matches!(result, Err(Error::Failed { .. })), "{result:?}");
        let has_run: Vec<bool> = plan.steps().map(|it| it.outcome().is_some()).collect();
        assert_eq!((has_run[0], has_run[1], has_run[3]), (true, false, false));
    }
}
