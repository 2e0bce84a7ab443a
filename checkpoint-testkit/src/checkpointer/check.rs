//! A single check of the suite.

use std::{pin::Pin, sync::Arc};

use graph_core::checkpoint::Checkpointer;

use super::support::{CheckResult, Saver};
use crate::report::{CheckFailure, run_check};

/// Declares the checks in a file. Each check is an async function that takes the saver and the given arguments.
macro_rules! checks {
    ($($name:literal => $check:ident($($arg:expr),*),)+) => {
        pub(super) const CHECKS: &[$crate::checkpointer::check::Check] = &[
            $($crate::checkpointer::check::Check {
                name: $name,
                body: |saver| Box::pin($check(saver, $($arg),*)),
            }),+
        ];
    };
}

/// A check that tests one requirement on a checkpointer.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub(super) name: &'static str,
    pub(super) body: fn(Saver) -> CheckFuture,
}

pub(super) type CheckFuture = Pin<Box<dyn Future<Output = CheckResult> + Send>>;

impl Check {
    /// Returns the name, which states the requirement: `"put: a checkpoint reads back unchanged"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check on an empty saver.
    ///
    /// The check fails if it panics or does not finish within five minutes.
    pub async fn run(&self, saver: Arc<dyn Checkpointer>) -> Result<(), CheckFailure> {
        run_check(self.name, (self.body)(saver)).await
    }
}
