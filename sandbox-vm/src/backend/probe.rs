//! Probes back ends by starting a guest.

use std::time::Duration;

use super::interface::{Backend, Handle};
use crate::{
    Error,
    cgroup::Cgroup,
    limits::Limits,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    session::{CloseReason, RequestError, Session},
    spec::Spec,
};

/// Starts a guest, waits until the handshake is complete, and ends the guest.
pub(super) async fn start_and_stop(
    backend: &dyn Backend,
    id: &str,
    timeout: Duration,
) -> Result<(), Error> {
    let sandbox_dir = SandboxDir::create_for_probe(id)?;
    let guest = backend.start(&Spec::new("probe"), &sandbox_dir).await?;
    match Session::open(guest.channel, timeout).await {
        Ok(_) => {
            guest.handle.kill().await;
            Ok(())
        }
        Err(error) => {
            let problem = reject(&*guest.handle, error).await;
            Err(Error::Start { backend: backend.name(), problem })
        }
    }
}

/// Ends a guest whose handshake failed and returns the reason.
pub(crate) async fn reject(handle: &dyn Handle, error: RequestError) -> String {
    // A guest that is ending by itself may still be writing the reason, so its output is read before it is killed. In
    // all other cases, the output is read after the guest is killed.
    let (problem, early) = match error {
        RequestError::Timeout(after) => {
            (format!("it did not complete the handshake within {after:?}"), None)
        }
        RequestError::Closed(CloseReason::Protocol(error)) => (error.to_string(), None),
        RequestError::Closed(CloseReason::ChannelClosed) => {
            ("it ended before the handshake".to_owned(), Some(handle.diagnostic_output().await))
        }
        RequestError::Fault(fault) => (fault.message, None),
    };
    handle.kill().await;
    let output = match early {
        Some(output) => output,
        None => handle.diagnostic_output().await,
    };
    if output.is_empty() { problem } else { format!("{problem}; {output}") }
}

/// Probes a back end by starting a guest. `guarantees` is called with the control group that guests get on this
/// machine, or with `None` if they get none.
pub(super) async fn probe_by_starting(
    backend: &dyn Backend,
    id: &str,
    timeout: Duration,
    guarantees: fn(Option<&Cgroup>) -> Vec<Guarantee>,
) -> Result<Report, Error> {
    start_and_stop(backend, id, timeout).await?;
    // The control group is removed together with the sandbox directory, even if this process crashes.
    let sandbox_dir = SandboxDir::create_for_probe(id)?;
    let cgroup = sandbox_dir.create_cgroup(&Limits::default())?;
    Ok(Report::available(backend.name(), guarantees(cgroup.as_ref())))
}

/// Guarantees that a VM provides if the process that runs it (QEMU or the monitor) is in a jail.
pub(super) const VM_GUARANTEES: [Guarantee; 10] = [
    Guarantee::VirtualMachine,
    Guarantee::OwnKernel,
    Guarantee::FilteredCalls,
    Guarantee::NoNetwork,
    Guarantee::NoHostFiles,
    Guarantee::OwnProcesses,
    Guarantee::NoPrivileges,
    Guarantee::MemoryLimit,
    Guarantee::ProcessLimit,
    Guarantee::DiskLimit,
];
