//! Events about debates that do not run in virtual machines.

use sandbox_vm::{
    Error, Sandboxes,
    report::{IsolationLevel, Report},
};

use super::isolation::memory_warning;
use crate::{event::PipelineEvent, moves::MoveId};

/// Back ends that run debates in VMs. The first one needs nothing to be installed.
const VM_BACKENDS: [&str; 2] = ["kvm-process", "microvm"];

/// Returns an event that says why debates do not run in virtual machines, and whether their memory is unbounded.
/// Returns `None` if they run in virtual machines.
pub(super) fn degraded_event(sandboxes: &Sandboxes) -> Option<PipelineEvent> {
    let reason = match sandboxes.level() {
        IsolationLevel::Vm => return None,
        IsolationLevel::Off => isolation_problem(sandboxes),
        IsolationLevel::Process | IsolationLevel::Kernel => {
            let warning = memory_warning(sandboxes).map(str::to_owned);
            join(warning.into_iter().chain([advice_for_vms(sandboxes)]))
        }
    };
    Some(event(None, sandboxes, reason))
}

/// Returns the event that the debate about a move runs in the weaker sandboxes `used`, because its sandbox could not be
/// created in `first`.
pub(super) fn downgrade_event(
    move_id: MoveId,
    first: &Sandboxes,
    used: &Sandboxes,
    error: &Error,
) -> PipelineEvent {
    let problem = error.to_string();
    let problem = problem.lines().next().unwrap_or_default().to_owned();
    let warning = memory_warning(used).map(str::to_owned);
    let reason = join([problem].into_iter().chain(warning).chain([advice_for_vms(first)]));
    event(Some(move_id), used, reason)
}

fn event(move_id: Option<MoveId>, sandboxes: &Sandboxes, reason: String) -> PipelineEvent {
    let (backend, isolation) = (sandboxes.backend().to_owned(), sandboxes.level());
    let move_id = move_id.map(|it| it.to_string());
    PipelineEvent::SandboxDegraded { move_id, backend, isolation, reason }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns why debates run without isolation.
fn isolation_problem(sandboxes: &Sandboxes) -> String {
    let problem = |it: &Report| Some(format!("{}: {}", it.backend, it.problem.as_deref()?));
    let problems: Vec<String> = sandboxes.reports().iter().filter_map(problem).collect();
    if problems.is_empty() { "isolation is off".to_owned() } else { problems.join("; ") }
}

/// Returns advice on how to run debates in virtual machines. `sandboxes` are those that the run prefers.
fn advice_for_vms(sandboxes: &Sandboxes) -> String {
    if sandboxes.level() == IsolationLevel::Vm {
        // VMs are available on this machine, but the VM of this debate failed to start.
        return "for VMs, run `consulting doctor` and follow its advice".to_owned();
    }
    let advice_of = |name: &str| {
        let is_missing = |it: &&Report| it.backend == name && !it.is_available();
        sandboxes.reports().iter().find(is_missing)?.advice.first()
    };
    match VM_BACKENDS.into_iter().find_map(advice_of) {
        Some(advice) => format!("for VMs, {advice}"),
        None => "for VMs, omit --sandbox".to_owned(),
    }
}
