//! Spans for the `tracing` crate: run, superstep, task and checkpoint; and the warnings of a compiled graph.
//!
//! The names and fields of the spans are part of the public API. The feature `tracing` enables the spans. Without it,
//! they compile to nothing.

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{checkpoint, instrument, run, superstep, task, warn};
#[cfg(feature = "tracing")]
pub(crate) use on::{checkpoint, instrument, run, superstep, task, warn};

#[cfg(feature = "tracing")]
mod on {
    use std::{fmt::Display, future::Future};

    use tracing::{Instrument, Span, debug_span, field::Empty, info_span};

    pub(crate) fn run(graph: &str, run: &str, thread: Option<&str>) -> Span {
        let span = info_span!("graph.run", graph = %graph, run = %run, thread = Empty);
        if let Some(thread) = thread {
            span.record("thread", thread);
        }
        span
    }

    pub(crate) fn superstep(namespace: &str, step: i64) -> Span {
        debug_span!("graph.superstep", namespace, step)
    }

    /// Creates the span of a task. `id` computes the task's id, which costs a hash, and is called only if the span is
    /// enabled.
    pub(crate) fn task<T: Display>(node: &str, step: i64, id: impl FnOnce() -> T) -> Span {
        let span = debug_span!("graph.task", node, step, task = Empty);
        if !span.is_disabled() {
            span.record("task", tracing::field::display(id()));
        }
        span
    }

    pub(crate) fn checkpoint(writes: usize) -> Span {
        debug_span!("graph.checkpoint", writes)
    }

    /// Logs a likely mistake in a graph.
    pub(crate) fn warn(graph: &str, problem: &dyn Display) {
        tracing::warn!(graph, "{problem}");
    }

    pub(crate) fn instrument<F: Future>(span: Span, future: F) -> impl Future<Output = F::Output> {
        future.instrument(span)
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::future::Future;

    pub(crate) struct Span;

    pub(crate) fn run(_: &str, _: &str, _: Option<&str>) -> Span {
        Span
    }

    pub(crate) fn superstep(_: &str, _: i64) -> Span {
        Span
    }

    pub(crate) fn task<T>(_: &str, _: i64, _: impl FnOnce() -> T) -> Span {
        Span
    }

    pub(crate) fn checkpoint(_: usize) -> Span {
        Span
    }

    pub(crate) fn warn(_: &str, _: &dyn std::fmt::Display) {}

    pub(crate) fn instrument<F: Future>(_: Span, future: F) -> F {
        future
    }
}
