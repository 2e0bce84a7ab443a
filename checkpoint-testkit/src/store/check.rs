//! A single check of the suite.

use std::{pin::Pin, sync::Arc};

use graph_core::store::{Store, backend::Settings};

use super::support::{CheckResult, Clock, Fixture, WordEmbedder};
use crate::report::{CheckFailure, run_check};

/// Declares the checks of a module as `"name" => settings, function(arguments)`.
///
/// `function` is an async function that takes a `Fixture` and the arguments; `settings` is a function that prepares the
/// store's settings.
macro_rules! checks {
    ($($name:literal => $settings:expr, $check:ident($($arg:expr),*),)+) => {
        pub(super) const CHECKS: &[$crate::store::check::Check] = &[
            $($crate::store::check::Check {
                name: $name,
                settings: $settings,
                body: |fixture| Box::pin($check(fixture, $($arg),*)),
            }),+
        ];
    };
}

/// A check that tests one requirement on a store.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub(super) name: &'static str,
    pub(super) settings: fn(Settings, Arc<WordEmbedder>) -> Settings,
    pub(super) body: fn(Fixture) -> Pin<Box<dyn Future<Output = CheckResult> + Send>>,
}

impl Check {
    /// Returns the name, which describes the requirement, such as `"put: replacing an item keeps its creation time"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Calls `make` with the check's settings to create a store, and runs the check on that store.
    ///
    /// A panic counts as a failure, and so does a check that takes longer than five minutes.
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
        let explain = |error| format!("the store returned an unexpected error: {error}");
        run_check(self.name, async move { body.await.map_err(explain) }).await
    }
}
