//! The nodes at which a run stops.

use graph_core::Stops;
use serde::Deserialize;

/// The nodes to stop at: a list, or `"*"` for all nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum StopsSpec {
    At(Vec<String>),
    Everywhere(Star),
}

/// The text `*`, which means all nodes.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Star {
    #[serde(rename = "*")]
    Star,
}

impl StopsSpec {
    /// Returns whether the list contains no nodes.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::At(nodes) if nodes.is_empty())
    }
}

impl From<&StopsSpec> for Stops {
    fn from(stops: &StopsSpec) -> Self {
        match stops {
            StopsSpec::At(nodes) => Self::at(nodes.clone()),
            StopsSpec::Everywhere(Star::Star) => Self::All,
        }
    }
}
