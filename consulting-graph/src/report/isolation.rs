//! How the debates of a run were isolated from the host.

use std::collections::BTreeMap;

use sandbox_vm::report::IsolationLevel;
use serde::{Deserialize, Serialize};

use crate::moves::MoveId;

/// How a debate, or several debates, were isolated from the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// Names of the back ends, separated by commas.
    pub backend: String,
    /// Weakest isolation of a debate.
    pub level: IsolationLevel,
    /// Whether no kernel limited the memory of an isolated debate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_unbounded: bool,
}

impl Isolation {
    /// Warning about debates whose memory no kernel limited.
    pub const MEMORY_UNBOUNDED: &'static str = "memory NOT BOUNDED by a kernel";

    /// Returns the names of all back ends, the weakest level, and whether the memory of a debate was unbounded. Returns
    /// `None` if there are no debates.
    pub(crate) fn combine<'a>(debates: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut debates = debates.into_iter();
        let mut combined = debates.next()?.clone();
        for Self { backend, level, memory_unbounded } in debates {
            if !combined.backend.split(", ").any(|it| it == backend) {
                combined.backend += &format!(", {backend}");
            }
            combined.level = combined.level.min(*level);
            combined.memory_unbounded |= memory_unbounded;
        }
        Some(combined)
    }

    /// Returns the back ends with the level, and whether the memory of a debate was unbounded.
    fn description(&self) -> String {
        let (backend, level) = (&self.backend, self.level.description());
        match self.memory_unbounded {
            true => format!("{backend} ({level}; {})", Self::MEMORY_UNBOUNDED),
            false => format!("{backend} ({level})"),
        }
    }
}

/// Describes the sandboxes of the debates. `all` is the combined isolation of all debates. Names the moves whose
/// debates had less isolation than the others.
pub(super) fn sandboxes_text(all: &Isolation, by_move: &BTreeMap<MoveId, Isolation>) -> String {
    let mut levels = isolation_levels(by_move);
    match levels.pop() {
        Some((strongest, _)) if !levels.is_empty() => {
            format!("{}, except {}", strongest.description(), moves_text(&levels))
        }
        _ => all.description(),
    }
}

/// Returns a notice about debates that ran with less isolation than the others, each with its move, or about all
/// debates if none was isolated. Returns `None` if all debates were isolated at the same level.
pub(super) fn isolation_notice(
    all: &Isolation,
    by_move: &BTreeMap<MoveId, Isolation>,
) -> Option<String> {
    let mut levels = isolation_levels(by_move);
    if levels.pop().is_some() && !levels.is_empty() {
        return Some(format!("Less isolation than in the other debates: {}.", moves_text(&levels)));
    }
    let is_off = all.level == IsolationLevel::Off;
    is_off.then(|| format!("The debates ran without isolation ({}).", all.backend))
}

/// Returns the debates by level of isolation, weakest first.
fn isolation_levels(by_move: &BTreeMap<MoveId, Isolation>) -> Vec<(Isolation, Vec<MoveId>)> {
    let mut levels: BTreeMap<IsolationLevel, Vec<MoveId>> = BTreeMap::new();
    for (move_id, isolation) in by_move {
        levels.entry(isolation.level).or_default().push(*move_id);
    }
    let combined = |moves: Vec<MoveId>| {
        let isolation = Isolation::combine(moves.iter().filter_map(|it| by_move.get(it)))?;
        Some((isolation, moves))
    };
    levels.into_values().filter_map(combined).collect()
}

/// Lists moves with the isolation of their debates.
fn moves_text(levels: &[(Isolation, Vec<MoveId>)]) -> String {
    let text = |(isolation, moves): &(Isolation, Vec<MoveId>)| {
        let moves: Vec<String> = moves.iter().map(ToString::to_string).collect();
        format!("{} with {}", moves.join(", "), isolation.description())
    };
    levels.iter().map(text).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use sandbox_vm::report::IsolationLevel;

    use super::Isolation;

    fn isolation(backend: &str, level: IsolationLevel, memory_unbounded: bool) -> Isolation {
        Isolation { backend: backend.to_owned(), level, memory_unbounded }
    }

    #[test]
    fn combined_isolation_is_the_weakest_one_with_each_back_end_once() {
        use IsolationLevel::{Process, Vm};
        let debates = [("vm", Vm, false), ("jail", Process, true), ("vm", Vm, false)];
        let debates = debates.map(|(backend, level, memory)| isolation(backend, level, memory));
        assert_eq!(Isolation::combine(&debates), Some(isolation("vm, jail", Process, true)));
        assert_eq!(Isolation::combine(&[]), None);
    }

    #[test]
    fn description_states_level_and_unbounded_memory() {
        use IsolationLevel::{Off, Process, Vm};
        assert_eq!(isolation("vm", Vm, false).description(), "vm (isolation: vm)");
        assert_eq!(
            isolation("jail", Process, true).description(),
            "jail (isolation: process, shares the host's kernel; memory NOT BOUNDED by a kernel)"
        );
        assert_eq!(
            isolation("in-process", Off, false).description(),
            "in-process (isolation: off, NOT ISOLATED)"
        );
    }
}
