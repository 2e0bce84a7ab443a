//! Records of where debates ran. The records are part of the run's state, from which resumed runs and replays read
//! them.

use serde::{Deserialize, Serialize};

use crate::{moves::MoveId, report::Isolation};

/// Record of where the debate about one move ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationRecord {
    pub move_id: MoveId,
    pub backend: String,
    /// Whether the back end isolated the guest from the host.
    pub isolated: bool,
}

/// Returns the names of all back ends in the records, and whether every debate was isolated. Returns `None` if there
/// are no records.
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
