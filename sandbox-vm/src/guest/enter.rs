//! Turns a process into a guest.

use std::{env, process::exit};

use super::Agent;
#[cfg(target_arch = "x86_64")]
use crate::backend::kvm_process;
use crate::backend::{
    container, gvisor, jail, microvm,
    plan::{self, GuestArgs},
    stage_error::StageError,
};

/// Runs the guest and exits if this process was started as a guest; otherwise returns immediately.
///
/// Call this function at the start of `main`, before any OS thread is started, because only a single-threaded process
/// can create namespaces.
///
/// ```
/// use sandbox_vm::guest::{self, Agent};
///
/// // At the start of `main`:
/// guest::enter(Agent::new);
/// // Only the host continues here.
/// ```
pub fn enter(agent: impl FnOnce() -> Agent) {
    if !plan::was_started_as_guest() {
        return;
    }
    let args = env::args_os().nth(2).and_then(|it| it.into_string().ok()).unwrap_or_default();
    let outcome = GuestArgs::parse(&args)
        .map_err(StageError::new("parse its arguments (use a host of the same version)"))
        .and_then(|args| run(args, agent));
    if let Err(error) = outcome {
        // The host reads this as the guest's diagnostic output.
        eprintln!("{error}");
        exit(1);
    }
    exit(0);
}

/// Runs this process in the given role.
fn run(args: GuestArgs, agent: impl FnOnce() -> Agent) -> Result<(), StageError> {
    match args {
        GuestArgs::JailOuter(plan) => jail::outer(&plan),
        GuestArgs::JailInit(plan) => jail::init(&plan, agent()),
        GuestArgs::GvisorOuter(plan) => gvisor::outer(&plan),
        GuestArgs::GvisorInit(plan) => gvisor::init(&plan, agent()),
        GuestArgs::Contained(plan) => container::init(&plan, agent()),
        GuestArgs::Qemu(plan) => microvm::become_qemu(&plan),
        GuestArgs::MicroVm(plan) => microvm::init(&plan, agent()),
        #[cfg(target_arch = "x86_64")]
        GuestArgs::KvmMonitor(plan) => kvm_process::monitor(&plan),
        #[cfg(target_arch = "x86_64")]
        GuestArgs::KvmGuest => kvm_process::guest(agent()),
    }
}
