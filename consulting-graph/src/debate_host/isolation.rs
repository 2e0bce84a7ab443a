//! Records of where debates ran. The records are part of the run's state, from which resumed runs and replays read
//! them.

use sandbox_vm::Sandboxes;
use serde::{Deserialize, Serialize};

use crate::{moves::MoveId, report::Isolation};

/// Record of where the debate about one move ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationRecord {
    pub move_id: MoveId,
    #[serde(flatten)]
    pub isolation: Isolation,
}

/// Returns how debates in these sandboxes are isolated.
pub(super) fn isolation_of(sandboxes: &Sandboxes) -> Isolation {
    Isolation {
        backend: sandboxes.backend().to_owned(),
        level: sandboxes.level(),
        memory_unbounded: memory_warning(sandboxes).is_some(),
    }
}

/// Returns a warning if the sandboxes are isolated, but no kernel limits their memory.
pub(super) fn memory_warning(sandboxes: &Sandboxes) -> Option<&'static str> {
    let reports = sandboxes.reports();
    reports.iter().find(|it| it.backend == sandboxes.backend())?.memory_warning()
}
