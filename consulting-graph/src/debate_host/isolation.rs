//! Records of where debates ran. The records are part of the run's state, from which resumed runs and replays read
//! them.

use sandbox_vm::report::IsolationLevel;
use serde::{Deserialize, Serialize};

use crate::{moves::MoveId, report::Isolation};

/// Record of where the debate about one move ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationRecord {
    pub move_id: MoveId,
    pub backend: String,
    /// How strongly the back end isolated the guest from the host.
    pub level: IsolationLevel,
}

/// Returns the names of all back ends in the records, and the weakest isolation of a debate. Returns `None` if there are
/// no records.
pub(super) fn combine(records: &[IsolationRecord]) -> Option<Isolation> {
    let mut backends: Vec<&str> = Vec::new();
    for it in records {
        if !backends.contains(&it.backend.as_str()) {
            backends.push(&it.backend);
        }
    }
    let level = records.iter().map(|it| it.level).min()?;
    Some(Isolation { backend: backends.join(", "), level })
}
