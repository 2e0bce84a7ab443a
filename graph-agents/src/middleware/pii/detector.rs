//! The type of detectors.

use std::{ops::Range, sync::Arc};

/// Finds personal data in a text. Returns byte ranges that do not overlap, in ascending order.
pub type Detector = Arc<dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync>;
