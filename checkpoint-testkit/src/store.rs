//! The conformance suite for implementations of [`Store`].
//!
//! Each check runs on its own store, which must be empty and use the given settings. The settings contain a clock and
//! an embedder that the check controls.
//!
//! ```
//! use std::sync::Arc;
//!
//! use checkpoint_testkit::store;
//! use graph_core::store::{InMemoryStore, Store};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! // In a test: `#[tokio::test] async fn the_store_conforms() { … }`
//! let report = store::run(|settings| async {
//!     Arc::new(InMemoryStore::new().with_settings(settings)) as Arc<dyn Store>
//! });
//! report.await.assert();
//! # }
//! ```

#[macro_use]
mod check;
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

use std::sync::Arc;

use graph_core::store::{Store, backend::Settings};

pub use self::check::Check;
use crate::report::Report;

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
        report.add(check.name(), check.run(&make).await);
    }
    report
}

/// Returns all checks in the order in which [`run`] runs them, so that a caller can run them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    ALL_CHECKS.iter().copied().flatten().copied()
}

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
