//! Which sandboxes debates can be held in.

#[cfg(target_arch = "x86_64")]
use sandbox_vm::backend::KvmProcess;
use sandbox_vm::{
    Error, Isolation, Opening, Sandboxes,
    backend::{Gvisor, InProcess, Jail, MicroVm},
};

use crate::debate;

/// The back ends that debates can be held in, strongest first.
pub const BACKENDS: [&str; 5] = ["microvm", "kvm-process", "gvisor", "jail", "in-process"];

/// Opens the strongest back end there is, or the one of this name.
pub async fn open(isolation: Isolation, only: Option<&str>) -> Result<Sandboxes, Error> {
    // Where nothing is to isolate, nothing else is tried.
    let only = only.or((isolation == Isolation::Off).then_some("in-process"));
    let wanted = BACKENDS.into_iter().filter(|it| only.is_none_or(|only| only == *it));
    wanted.fold(Sandboxes::new().isolation(isolation), add).open().await
}

/// The guest is this program itself, which holds the debate's graph.
fn add(opening: Opening, name: &str) -> Opening {
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
