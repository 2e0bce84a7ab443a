//! Spans for the `tracing` crate: run, superstep, task and checkpoint.
//!
//! The names and fields of the spans are part of the public API. The feature `tracing` enables the spans. Without it,
//! they compile to nothing.

#[cfg(feature = "tracing")]
pub(crate) use on::{checkpoint, instrument, run, superstep, task};

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{checkpoint, instrument, run, superstep, task};

#[cfg(feature = "tracing")]
mod on {
    use std::future::Future;

    use tracing::{Instrument, Span, debug_span, field::Empty, info_span};

    use crate::{context::TaskContext, engine::RootRun};

    pub(crate) fn run(request: &RootRun) -> Span {
        let span = info_span!(
            "graph.run",
            graph = %request.graph.name,
            run = %request.run,
            thread = Empty
        );
        if let Some(thread) = &request.thread {
            span.record("thread", &**thread);
        }
        span
    }

    pub(crate) fn superstep(namespace: &str, step: i64) -> Span {
        debug_span!("graph.superstep", namespace, step)
    }

    pub(crate) fn task(cx: &TaskContext) -> Span {
        let span = debug_span!("graph.task", node = cx.node(), step = cx.step, task = Empty);
        // Computing the id costs a hash, so it is skipped if the span is disabled.
        if !span.is_disabled() {
            span.record("task", tracing::field::display(cx.id()));
        }
        span
    }

    pub(crate) fn checkpoint(writes: usize) -> Span {
        debug_span!("graph.checkpoint", writes)
    }

    pub(crate) fn instrument<F: Future>(span: Span, future: F) -> impl Future<Output = F::Output> {
        future.instrument(span)
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::future::Future;

    use crate::{context::TaskContext, engine::RootRun};

    pub(crate) struct Span;

    pub(crate) fn run(_: &RootRun) -> Span {
        Span
    }

    pub(crate) fn superstep(_: &str, _: i64) -> Span {
        Span
    }

    pub(crate) fn task(_: &TaskContext) -> Span {
        Span
    }

    pub(crate) fn checkpoint(_: usize) -> Span {
        Span
    }

    pub(crate) fn instrument<F: Future>(_: Span, future: F) -> F {
        future
    }
}
