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

/// Returns the names of all back ends in the records, the weakest isolation of a debate, and whether the memory of a
/// debate was not bounded. Returns `None` if there are no records.
pub(super) fn combine(records: &[IsolationRecord]) -> Option<Isolation> {
    let mut backends: Vec<&str> = Vec::new();
    for IsolationRecord { isolation, .. } in records {
        if !backends.contains(&isolation.backend.as_str()) {
            backends.push(&isolation.backend);
        }
    }
    let all = || records.iter().map(|it| &it.isolation);
    Some(Isolation {
        backend: backends.join(", "),
        level: all().map(|it| it.level).min()?,
        memory_unbounded: all().any(|it| it.memory_unbounded),
    })
}
