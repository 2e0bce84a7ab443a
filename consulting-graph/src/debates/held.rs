//! Where debates were held: a fact of a run, which whoever goes on with it or repeats it has from there.

use serde::{Deserialize, Serialize};

use crate::{moves::MoveId, report::Isolation};

/// Where the debate about a move was held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldIn {
    /// The move.
    pub move_id: MoveId,
    /// The back end of its sandbox.
    pub backend: String,
    /// Whether that kept it apart from the host.
    pub isolated: bool,
}

/// All of them together; nothing where there were none.
pub(super) fn together(held: &[HeldIn]) -> Option<Isolation> {
    let mut backends: Vec<&str> = Vec::new();
    for it in held {
        if !backends.contains(&it.backend.as_str()) {
            backends.push(&it.backend);
        }
    }
    let isolated = held.iter().all(|it| it.isolated);
    (!held.is_empty()).then(|| Isolation { backend: backends.join(", "), isolated })
}
