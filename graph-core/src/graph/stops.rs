//! Static stops: nodes before or after which a run always stops.

use crate::label::Label;

/// The nodes before or after which a run stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stops {
    /// No nodes.
    #[default]
    None,
    /// The named nodes.
    At(Vec<Label>),
    /// All nodes.
    All,
}

impl Stops {
    /// Returns [`Stops::At`] with the named nodes.
    pub fn at<L: Into<Label>>(nodes: impl IntoIterator<Item = L>) -> Self {
        Self::At(nodes.into_iter().map(Into::into).collect())
    }

    pub(crate) fn contains(&self, node: &Label) -> bool {
        match self {
            Self::None => false,
            Self::At(nodes) => nodes.contains(node),
            Self::All => true,
        }
    }
}
