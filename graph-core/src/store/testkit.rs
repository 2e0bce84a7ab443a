//! The conformance suite for stores: what every [`Store`] must do, as checks to run on yours.
//!
//! Each check gets a store of its own, which must be empty and made with the settings it is given: they hold
//! the clock that the check moves and the embedder that it knows.
//!
//! ```
//! use std::sync::Arc;
//!
//! use graph_core::store::{InMemoryStore, Store, testkit};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // In a test: `#[tokio::test] async fn the_store_conforms() { … }`
//! let report = testkit::run(|settings| async {
//!     Arc::new(InMemoryStore::new().with_settings(settings)) as Arc<dyn Store>
//! });
//! report.await.assert();
//! # }
//! ```

#[macro_use]
mod support;

mod atomic;
mod batch;
mod concurrency;
mod index;
mod items;
mod listing;
mod names;
mod search;
#[cfg(test)]
mod tests;
mod ttl;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use self::support::{Bench, Clock, Outcome, Words};
use super::{Store, backend::Settings};
pub use crate::checkpoint::testkit::{Failure, Report};

/// Runs every check, each on a fresh store that `make` makes with the given settings.
///
/// Needs a tokio runtime with its clock enabled, as `#[tokio::test]` makes it.
pub async fn run<F, Fut>(make: F) -> Report
where
    F: Fn(Settings) -> Fut,
    Fut: Future<Output = Arc<dyn Store>>,
{
    run_all(checks(), make).await
}

/// Runs every check, and those for a store that does its batches whole or not at all.
///
/// The trait leaves it to a store whether it promises so.
pub async fn run_atomic<F, Fut>(make: F) -> Report
where
    F: Fn(Settings) -> Fut,
    Fut: Future<Output = Arc<dyn Store>>,
{
    run_all(checks().chain(atomic::CHECKS.iter().copied()), make).await
}

async fn run_all<F, Fut>(checks: impl Iterator<Item = Check>, make: F) -> Report
where
    F: Fn(Settings) -> Fut,
    Fut: Future<Output = Arc<dyn Store>>,
{
    let mut report = Report::default();
    for check in checks {
        match check.run(&make).await {
            Ok(()) => report.passed.push(check.name),
            Err(failure) => report.failed.push(failure),
        }
    }
    report
}

/// All checks in the order in which [`run`] runs them, for running them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    SUBJECTS.iter().copied().flatten().copied()
}

/// One thing that a store must do.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    settings: fn(Settings, Arc<Words>) -> Settings,
    body: fn(Bench) -> Body,
}

impl Check {
    /// What is checked, in words: `"put: the time of creation is that of the first put"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check on a store that `make` makes with the given settings.
    ///
    /// A panic is a failure too, and so is a store that does not answer within two minutes.
    pub async fn run<F, Fut>(&self, make: F) -> Result<(), Failure>
    where
        F: Fn(Settings) -> Fut,
        Fut: Future<Output = Arc<dyn Store>>,
    {
        let (clock, words) = (Clock::new(), Arc::new(Words::default()));
        let told = clock.clone();
        let settings = Settings::new().with_clock(move || told.now());
        let store = make((self.settings)(settings, words.clone())).await;
        let body = (self.body)(Bench { store, clock, words });
        let problem = match tokio::spawn(tokio::time::timeout(PATIENCE, body)).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(error))) => {
                format!("the store gave an error where none was expected: {error}")
            }
            Ok(Err(_)) => format!("it was not over after {} s", PATIENCE.as_secs()),
            Err(error) => error.to_string(),
        };
        Err(Failure { check: self.name, problem })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

type Body = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How long a check may take: enough for hundreds of writes over a network.
const PATIENCE: Duration = Duration::from_secs(120);

const SUBJECTS: &[&[Check]] = &[
    items::CHECKS,
    names::CHECKS,
    search::CHECKS,
    listing::CHECKS,
    ttl::CHECKS,
    index::CHECKS,
    batch::CHECKS,
    concurrency::CHECKS,
];
