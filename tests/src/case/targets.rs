//! The targets of commands and branches.

use serde::Deserialize;

use crate::expr::Expr;

/// The targets of a command or branch. `None` represents the null that a branch may return.
pub type Targets = Option<Vec<Option<TargetSpec>>>;

/// One target of a command or branch.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum TargetSpec {
    /// A node, END, or a label in the branch's map.
    Name(String),
    /// A Send, or one Send per item in a list.
    Send {
        send: String,
        /// The list whose items are sent. `None` for a single Send.
        each: Option<Expr>,
        /// The payload of each Send.
        arg: Expr,
    },
}
