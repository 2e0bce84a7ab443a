//! The future of a run.

use std::{future::Future, pin::Pin};

use crate::error::RunError;

/// The future of a method that runs a graph.
///
/// Unlike the future of an `async fn`, its type does not contain the type of the input. The compiler therefore reports
/// an invalid input once, not again for the call and for the `.await`.
pub type RunFuture<'a, T, E = RunError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;
