//! Records where debates ran. They are part of the run's state, so resumed runs and replays read them from there.

use serde::{Deserialize, Serialize};

use crate::{moves::MoveId, report::Isolation};

/// Where the debate about one move ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationRecord {
    /// The move.
    pub move_id: MoveId,
    /// Back end of its sandbox.
    pub backend: String,
    /// Whether the back end isolated the guest from the host.
    pub isolated: bool,
}

/// Combines the records of all debates into one. Returns `None` if there are none.
pub(super) fn combine(records: &[IsolationRecord]) -> Option<Isolation> {
    let mut backends: Vec<&str> = Vec::new();
    for it in records {
        if !backends.contains(&it.backend.as_str()) {
            backends.push(&it.backend);
        }
    }
    let isolated = records.iter().all(|it| it.isolated);
    (!records.is_empty()).then(|| Isolation { backend: backends.join(", "), isolated })
}
