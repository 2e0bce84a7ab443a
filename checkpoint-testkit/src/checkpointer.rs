//! The conformance suite for implementations of [`Checkpointer`].
//!
//! In this module, a saver is an implementation of `Checkpointer`. Each check needs its own empty saver, because checks
//! list all threads, delete runs in all threads, and assume that there is no other writer.

#[macro_use]
mod check;
#[macro_use]
mod support;

mod changes;
mod concurrency;
mod copy_thread;
mod delete_runs;
mod delete_thread;
mod forks;
mod get;
mod head;
mod lease;
mod list;
mod names;
mod prune;
mod put;
mod records;
mod slots;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use graph_core::checkpoint::Checkpointer;

pub use self::check::Check;
use crate::report::Report;

/// Runs all checks, each on a new saver from `make`.
///
/// Needs a tokio runtime with time enabled, such as the one that `#[tokio::test]` creates.
pub async fn run<F, Fut>(make: F) -> Report
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Checkpointer>>,
{
    let mut report = Report::default();
    for check in checks() {
        report.add(check.name(), check.run(make().await).await);
    }
    report
}

/// Returns all checks, in the order in which [`run`] runs them, so that a caller can run them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    ALL_CHECKS.iter().copied().flatten().copied()
}

const ALL_CHECKS: &[&[Check]] = &[
    put::CHECKS,
    head::CHECKS,
    changes::CHECKS,
    forks::CHECKS,
    values::CHECKS,
    records::CHECKS,
    slots::CHECKS,
    get::CHECKS,
    list::CHECKS,
    names::CHECKS,
    lease::CHECKS,
    delete_thread::CHECKS,
    delete_runs::CHECKS,
    copy_thread::CHECKS,
    prune::CHECKS,
    concurrency::CHECKS,
];
