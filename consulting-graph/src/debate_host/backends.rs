//! Sandbox back ends for debates.

#[cfg(target_arch = "x86_64")]
use sandbox_vm::backend::KvmProcess;
use sandbox_vm::{
    Error, Isolation, Sandboxes, SandboxesBuilder,
    backend::{Gvisor, InProcess, Jail, MicroVm},
};

use crate::debate;

/// Names of the back ends that can run debates, strongest first.
pub const BACKENDS: [&str; 5] = ["microvm", "kvm-process", "gvisor", "jail", "in-process"];

/// Opens the back end called `name`. If `name` is `None`, opens the in-process back end if isolation is off, otherwise
/// the strongest available one.
pub async fn open_sandboxes(isolation: Isolation, name: Option<&str>) -> Result<Sandboxes, Error> {
    // If isolation is off, only the in-process back end is tried.
    let name = name.or((isolation == Isolation::Off).then_some("in-process"));
    let candidates = BACKENDS.into_iter().filter(|it| name.is_none_or(|name| name == *it));
    candidates.fold(Sandboxes::builder().isolation(isolation), add_backend).open().await
}

/// Adds the named back end to the builder. The guests of the back end execute this same program, which contains the
/// debate graph.
fn add_backend(opening: SandboxesBuilder, name: &str) -> SandboxesBuilder {
    match name {
        "microvm" => opening.backend(MicroVm::this_program()),
        #[cfg(target_arch = "x86_64")]
        "kvm-process" => opening.backend(KvmProcess::this_program()),
        #[cfg(not(target_arch = "x86_64"))]
        "kvm-process" => opening,
        "gvisor" => opening.backend(Gvisor::this_program()),
        "jail" => opening.backend(Jail::this_program()),
        _ => opening.backend(InProcess::new(debate::agent)),
    }
}
