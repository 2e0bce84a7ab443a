//! Selects and opens sandbox back ends.

use sandbox_vm::{
    Error, Isolation, Sandboxes, SandboxesBuilder,
    backend::{Gvisor, InProcess, Jail, MicroVm},
    guest::Agent,
};

use super::{backend_names::BACKENDS, error::ExecutorError, options::Options};

/// Back ends that are tried by default, in this order. `in-process` does not isolate programs from the host, so it must
/// be requested by name.
const DEFAULT_ORDER: [&str; 3] = ["jail", "gvisor", "microvm"];

/// Opens the requested back end or, if none is requested, the first one that works.
pub(super) async fn open(options: &Options) -> Result<Sandboxes, ExecutorError> {
    if let Some(name) = &options.backend {
        if !BACKENDS.contains(&name.as_str()) {
            return Err(ExecutorError::NoBackend(name.clone()));
        }
        return Ok(open_one(name, options).await?);
    }
    // Try one back end at a time instead of probing all of them, because probing the others takes longer than starting
    // the jail, which is the first.
    let mut problem = None;
    for name in DEFAULT_ORDER {
        match open_one(name, options).await {
            Ok(sandboxes) => return Ok(sandboxes),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.expect("the list is not empty").into())
}

async fn open_one(name: &str, options: &Options) -> Result<Sandboxes, Error> {
    let opening = match &options.state {
        None => Sandboxes::builder(),
        Some(dir) => Sandboxes::builder().state_dir(dir),
    };
    let isolation = if name == "in-process" { Isolation::Off } else { Isolation::Process };
    add(opening.isolation(isolation), name, options).open().await
}

/// Adds the named back end. Its guest agent is the configured program, or this program if none is configured.
fn add(opening: SandboxesBuilder, name: &str, options: &Options) -> SandboxesBuilder {
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
