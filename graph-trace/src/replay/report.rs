//! The result of a replay and its differences from the recording.

use std::fmt;

use graph_core::{RunError, RunOutcome};

use super::{
    file::{RecordedCall, Recording},
    replayer::Replayer,
    unrecorded_call::UnrecordedCall,
};
use crate::{diff::Divergence, record::RecordedRun, text::plural, trace::Trace};

/// A replayed run and its differences from the recording.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct ReplayedRun<S> {
    /// The trace of the replayed run.
    pub trace: Trace,
    /// The result of the replayed run.
    pub outcome: Result<RunOutcome<S>, RunError>,
    /// Calls that are not in the recording, ordered by call site.
    pub unrecorded_calls: Vec<UnrecordedCall>,
    /// Recorded calls that were not made.
    pub unused_calls: Vec<RecordedCall>,
    /// The first difference from the recorded run, if any, and a summary of all differences.
    pub divergence: Option<Divergence>,
    /// Whether the declaration of the graph differs from that of the recorded graph.
    pub graph_changed: bool,
}

impl<S> ReplayedRun<S> {
    pub(super) fn new(
        recorded: RecordedRun<S>,
        replayer: &Replayer,
        recording: &Recording,
    ) -> Self {
        let RecordedRun { trace, outcome, .. } = recorded;
        Self {
            unrecorded_calls: replayer.unrecorded_calls(),
            unused_calls: replayer.unused_calls(),
            divergence: Trace::diff(&recording.trace, &trace),
            graph_changed: trace.header.graph != recording.header.graph,
            trace,
            outcome,
        }
    }

    /// Fails if the run differs from its recording.
    pub fn check(&self) -> Result<(), ReplayMismatchError> {
        if self.unrecorded_calls.is_empty()
            && self.unused_calls.is_empty()
            && self.divergence.is_none()
        {
            return Ok(());
        }
        Err(ReplayMismatchError {
            unrecorded_calls: self.unrecorded_calls.clone(),
            unused_calls: self.unused_calls.clone(),
            divergence: self.divergence.clone().map(Box::new),
            graph_changed: self.graph_changed,
        })
    }
}

impl<S> AsRef<Trace> for ReplayedRun<S> {
    fn as_ref(&self) -> &Trace {
        &self.trace
    }
}

/// The error returned when a replayed run differs from its recording.
#[derive(Clone)]
pub struct ReplayMismatchError {
    unrecorded_calls: Vec<UnrecordedCall>,
    unused_calls: Vec<RecordedCall>,
    divergence: Option<Box<Divergence>>,
    graph_changed: bool,
}

impl std::error::Error for ReplayMismatchError {}

graph_core::readable_debug!(ReplayMismatchError);

impl fmt::Display for ReplayMismatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_SHOWN: usize = 5;
        f.write_str("the run differs from its recording")?;
        if self.graph_changed {
            f.write_str("; its graph has changed too")?;
        }
        for call in self.unrecorded_calls.iter().take(MAX_SHOWN) {
            write!(f, "\n{call}")?;
        }
        if self.unrecorded_calls.len() > MAX_SHOWN {
            write!(
                f,
                "\nand {} more that the recording does not have",
                self.unrecorded_calls.len() - MAX_SHOWN
            )?;
        }
        if let Some(divergence) = &self.divergence {
            write!(f, "\n{}", divergence.to_string().trim_end())?;
        }
        if !self.unused_calls.is_empty() {
            write!(f, "\n{} not made:", plural(self.unused_calls.len(), "recorded call"))?;
        }
        for call in self.unused_calls.iter().take(MAX_SHOWN) {
            write!(f, "\n  at {}, `{}`", call.call_site, call.key)?;
        }
        if self.unused_calls.len() > MAX_SHOWN {
            write!(f, "\n  and {} more", self.unused_calls.len() - MAX_SHOWN)?;
        }
        Ok(())
    }
}
