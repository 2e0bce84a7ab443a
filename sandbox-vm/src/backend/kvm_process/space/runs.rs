//! Groups of adjacent frames that are processed together.

use std::ops::Range;

use crate::backend::kvm_process::ram::PAGE;

/// A list of frames in which adjacent frames are merged into ranges.
#[derive(Debug, Default)]
pub(super) struct FrameRuns(pub(super) Vec<Range<u64>>);

impl FrameRuns {
    pub(super) fn add(&mut self, frame: u64) {
        match self.0.last_mut() {
            Some(run) if run.end == frame => run.end += PAGE,
            Some(run) if run.start == frame + PAGE => run.start = frame,
            _ => self.0.push(frame..frame + PAGE),
        }
    }
}
