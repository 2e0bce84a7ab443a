//! Conformance suite for implementations of [`Store`].
//!
//! Each check runs on its own store, which must be empty and use the given settings. The settings contain a clock and
//! an embedder that the check controls.
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

use self::support::{CheckResult, Clock, Fixture, WordEmbedder};
use super::{Store, backend::Settings};
pub use crate::checkpoint::testkit::{CheckFailure, Report};

/// Runs all checks. For each check, calls `make` with the check's settings to create a new store.
///
/// Requires a tokio runtime with time enabled, such as the one that `#[tokio::test]` creates.
pub async fn run<F, Fut>(make: F) -> Report
where
    F: Fn(Settings) -> Fut,
    Fut: Future<Output = Arc<dyn Store>>,
{
    run_all(checks(), make).await
}

/// Runs all checks and, in addition, those for stores whose batches are atomic.
///
/// [`Store::batch`] does not require atomicity.
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

/// Returns all checks in the order in which [`run`] runs them, so that a caller can run them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    ALL_CHECKS.iter().copied().flatten().copied()
}

/// A check that tests one requirement on a store.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    settings: fn(Settings, Arc<WordEmbedder>) -> Settings,
    body: fn(Fixture) -> CheckFuture,
}

impl Check {
    /// Returns the name, which describes the requirement, such as `"put: replacing an item keeps its creation time"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Calls `make` with the check's settings to create a store, and runs the check on that store.
    ///
    /// A panic counts as a failure, and so does a check that takes longer than two minutes.
    pub async fn run<F, Fut>(&self, make: F) -> Result<(), CheckFailure>
    where
        F: Fn(Settings) -> Fut,
        Fut: Future<Output = Arc<dyn Store>>,
    {
        let (clock, embedder) = (Clock::new(), Arc::new(WordEmbedder::default()));
        let store_clock = clock.clone();
        let settings = Settings::new().with_clock(move || store_clock.now());
        let store = make((self.settings)(settings, embedder.clone())).await;
        let body = (self.body)(Fixture { store, clock, embedder });
        let problem = match tokio::spawn(tokio::time::timeout(CHECK_TIMEOUT, body)).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(error))) => format!("the store returned an unexpected error: {error}"),
            Ok(Err(_)) => format!("timed out after {} s", CHECK_TIMEOUT.as_secs()),
            Err(error) => error.to_string(),
        };
        Err(CheckFailure { check: self.name, problem })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

type CheckFuture = Pin<Box<dyn Future<Output = CheckResult> + Send>>;

/// Time limit of one check, long enough for hundreds of writes over a network.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

const ALL_CHECKS: &[&[Check]] = &[
    items::CHECKS,
    names::CHECKS,
    search::CHECKS,
    listing::CHECKS,
    ttl::CHECKS,
    index::CHECKS,
    batch::CHECKS,
    concurrency::CHECKS,
];
