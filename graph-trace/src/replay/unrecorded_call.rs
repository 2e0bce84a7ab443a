//! Calls that cannot be replayed.

use std::fmt;

use crate::text::plural;

/// A call that is not in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnrecordedCall {
    /// Location at which the call was made.
    pub call_site: String,
    /// Full key of the call: its name, followed by the key that the caller passed.
    pub key: String,
    /// The recorded call that was expected instead: the next call at the call site with the same name, or else the next
    /// call at the call site. Replayed calls are skipped.
    pub expected: Option<String>,
    /// How often the recording contains this call at this call site. If the number is greater than 0, all these
    /// recorded calls have already been replayed.
    pub recorded_count: usize,
    /// Another call site at which the recording contains this call, if any.
    pub recorded_at: Option<String>,
}

impl UnrecordedCall {
    /// Describes why the call could not be replayed.
    pub(super) fn problem(&self) -> String {
        match self {
            Self { recorded_count: 1.., expected: None, .. } => {
                format!(
                    "the recording contains it only {} at this call site",
                    plural(self.recorded_count, "time")
                )
            }
            Self { expected: Some(expected), key, .. } => {
                format!("expected `{expected}`, got `{key}`")
            }
            Self { recorded_at: Some(call_site), .. } => {
                format!(
                    "the recording contains no further call at this call site; it contains this call at {call_site}"
                )
            }
            _ => "the recording contains no further call at this call site".to_owned(),
        }
    }
}

impl fmt::Display for UnrecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}, call `{}`: {}", self.call_site, self.key, self.problem())
    }
}
