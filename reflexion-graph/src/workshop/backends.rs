//! Which sandboxes programs can be run in.

use sandbox_vm::{
    Error, Isolation, Opening, Sandboxes,
    backend::{Gvisor, InProcess, Jail, MicroVm},
    guest::Agent,
};

use super::{Options, WorkshopError};

/// The back ends that programs can be run in.
#[cfg(not(feature = "docker"))]
pub const BACKENDS: &[&str] = &["jail", "gvisor", "microvm", "in-process"];
/// The back ends that programs can be run in.
#[cfg(feature = "docker")]
pub const BACKENDS: &[&str] = &["jail", "gvisor", "microvm", "docker", "in-process"];

/// Those that are tried where none is named. In-process has no walls, so it is used by name only.
const TRIED: [&str; 3] = ["jail", "gvisor", "microvm"];

/// Opens the back end of a name, or the first that works.
pub(super) async fn open(options: &Options) -> Result<Sandboxes, WorkshopError> {
    if let Some(name) = &options.backend {
        if !BACKENDS.contains(&name.as_str()) {
            return Err(WorkshopError::NoBackend(name.clone()));
        }
        return Ok(open_one(name, options).await?);
    }
    // One by one: to try out a stronger one takes longer than the jail takes to start.
    let mut problem = None;
    for name in TRIED {
        match open_one(name, options).await {
            Ok(sandboxes) => return Ok(sandboxes),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.expect("at least one was tried").into())
}

async fn open_one(name: &str, options: &Options) -> Result<Sandboxes, Error> {
    let opening = match &options.state {
        None => Sandboxes::new(),
        Some(folder) => Sandboxes::new().state_folder(folder),
    };
    let isolation = if name == "in-process" { Isolation::Off } else { Isolation::Required };
    add(opening.isolation(isolation), name, options).open().await
}

/// The guest's agent is this program itself, or the one that is named.
fn add(opening: Opening, name: &str, options: &Options) -> Opening {
    let agent = options.agent.as_ref();
    match name {
        "gvisor" => opening.backend(agent.map_or_else(Gvisor::this_program, Gvisor::program)),
        "microvm" => opening.backend(agent.map_or_else(MicroVm::this_program, MicroVm::agent)),
        #[cfg(feature = "docker")]
        "docker" => {
            use sandbox_vm::backend::Docker;
            opening.backend(agent.map_or_else(Docker::this_program, Docker::agent))
        }
        "in-process" => opening.backend(InProcess::new(Agent::new)),
        _ => opening.backend(agent.map_or_else(Jail::this_program, Jail::program)),
    }
}
