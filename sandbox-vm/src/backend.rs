//! Back ends. Each one is a way to start a guest, for example in a VM or in a jail.
//!
//! A back end is small. It starts a guest with an agent in it and returns a byte stream to that agent and a [`Handle`]
//! to the guest as a whole. Programs, files and graphs are handled by the agent, in the same way for all back ends.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Error,
    cgroup::Cgroup,
    limits::{ExceededLimit, Limits, Usage},
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    session::{CloseReason, RequestError, Session},
    spec::Spec,
};

mod confine;
pub mod container;
mod diagnostics;
#[cfg(feature = "docker")]
pub mod docker;
mod fd_passing;
pub mod gvisor;
pub mod in_process;
pub mod jail;
#[cfg(target_arch = "x86_64")]
pub mod kvm_process;
pub mod microvm;
mod seccomp;

#[cfg(feature = "docker")]
pub use docker::Docker;
pub use gvisor::Gvisor;
pub use in_process::InProcess;
pub use jail::Jail;
#[cfg(target_arch = "x86_64")]
pub use kvm_process::KvmProcess;
pub use microvm::MicroVm;

/// Kind of work that guests have to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Programs and graphs.
    Programs,
    /// Only graphs.
    Graphs,
}

/// Returns all isolating back ends, strongest first, for guests that run `program`. The program has to be statically
/// linked, be readable by every user, and call [`guest::enter`](crate::guest::enter) before anything else.
pub fn isolating_backends(
    program: impl Into<PathBuf>,
    workload: Workload,
) -> Vec<Arc<dyn Backend>> {
    let program: PathBuf = program.into();
    let mut backends: Vec<Arc<dyn Backend>> = vec![Arc::new(MicroVm::agent(&program))];
    #[cfg(target_arch = "x86_64")]
    if workload == Workload::Graphs {
        backends.push(Arc::new(KvmProcess::agent(&program)));
    }
    backends.push(Arc::new(Gvisor::program(&program)));
    backends.push(Arc::new(Jail::program(&program)));
    #[cfg(feature = "docker")]
    backends.push(Arc::new(Docker::agent(&program)));
    backends
}

/// A way to start guests.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns the name of the back end, for example `"jail"`.
    fn name(&self) -> &'static str;

    /// Reports whether the back end can start guests on this machine, and what it guarantees for them.
    ///
    /// Implementations test this by starting a guest, not by checking versions. A second call may take as long as the
    /// first.
    async fn probe(&self) -> Report;

    /// Starts a guest. Before the back end creates anything that would outlive a crash of this process, it records that
    /// item in `sandbox_dir`.
    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error>;

    /// Returns the maximum number of bytes of host memory that a guest may use, including the memory that the back end
    /// itself needs to run the guest.
    fn footprint(&self, spec: &Spec) -> u64 {
        spec.limits.memory
    }

    /// Starts a guest from a snapshot created by [`Handle::snapshot`].
    async fn restore(&self, _: &Spec, _: &SandboxDir, _: &Snapshot) -> Result<Guest, Error> {
        Err(Error::Unsupported { backend: self.name(), operation: "restore a snapshot" })
    }
}

/// A started guest.
#[derive(Debug)]
pub struct Guest {
    /// Byte stream to the guest's agent.
    pub channel: Box<dyn Channel>,
    /// Handle to the guest as a whole.
    pub handle: Arc<dyn Handle>,
}

/// A bidirectional byte stream.
pub trait Channel: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug> Channel for T {}

/// Ends, pauses, measures and saves a guest as a whole. Dropping the last handle ends the guest.
#[async_trait]
pub trait Handle: Send + Sync + fmt::Debug {
    /// Ends the guest and everything that runs in it. Returns once none of its processes is running any more.
    async fn kill(&self);

    /// Stops the guest's processors until [`resume`](Self::resume) is called.
    async fn pause(&self) -> Result<(), Error>;

    /// Resumes a paused guest.
    async fn resume(&self) -> Result<(), Error>;

    /// Returns the resources that the guest has used so far, or `None` if the host cannot measure them.
    async fn usage(&self) -> Option<Usage>;

    /// Returns a limit that the guest has exceeded since the last call, or `None` if the back end has not detected any.
    async fn exceeded_limit(&self) -> Option<ExceededLimit>;

    /// Returns the last part of the output that the guest wrote outside the channel. This is its standard error or, for
    /// a VM, its console. Waits a moment, so that a guest that is just ending can write its last output.
    async fn diagnostic_output(&self) -> String;

    /// Saves the guest's complete state in the directory `dir`, which belongs to the caller.
    async fn snapshot(&self, dir: PathBuf) -> Result<Snapshot, Error>;
}

/// A guest's complete state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the back end that created the snapshot.
    pub backend: &'static str,
    /// Directory that contains the snapshot.
    pub dir: PathBuf,
}

/// Starts a guest, waits until the handshake is complete, and ends the guest.
async fn start_and_stop(backend: &dyn Backend, id: &str, timeout: Duration) -> Result<(), Error> {
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
async fn probe_by_starting(
    backend: &dyn Backend,
    id: &str,
    timeout: Duration,
    guarantees: fn(Option<&Cgroup>) -> Vec<Guarantee>,
) -> Result<Report, Error> {
    start_and_stop(backend, id, timeout).await?;
    // The control group is removed together with the sandbox directory, even if this process crashes.
    let sandbox_dir = SandboxDir::create_for_probe(id)?;
    let cgroup = jail::launch::create_cgroup(&sandbox_dir, &Limits::default())?;
    Ok(Report::available(backend.name(), guarantees(cgroup.as_ref())))
}

/// Guarantees that a VM provides if its monitor runs in a jail.
const VM_GUARANTEES: [Guarantee; 9] = [
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

/// Searches the directories in `PATH` for a program.
fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.is_file())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

    use super::{Jail, Workload, isolating_backends, start_and_stop};

    #[test]
    fn strongest_back_end_is_first() {
        let names = |workload| {
            isolating_backends("/agent", workload).iter().map(|it| it.name()).collect::<Vec<_>>()
        };
        let programs = names(Workload::Programs);
        assert_eq!(programs[..3], ["microvm", "gvisor", "jail"]);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(names(Workload::Graphs)[..4], ["microvm", "kvm-process", "gvisor", "jail"]);
        assert_eq!(programs.contains(&"docker"), cfg!(feature = "docker"));
        assert!(!programs.contains(&"in-process"), "it isolates nothing");
    }

    /// The reason is reported even if the guest writes it only after its channel has closed. Killing the guest as soon
    /// as the channel closes would lose the reason.
    #[tokio::test]
    async fn reason_of_an_early_end_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let script = "sleep 0.3 </dev/null & echo guest $!\nexec 0</dev/null\nsleep 0.3\necho no such luck >&2";
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let result =
            start_and_stop(&Jail::program(program), "probe-test", Duration::from_secs(30)).await;
        let message = result.unwrap_err().to_string();
        assert!(message.ends_with("it ended before the handshake; no such luck"), "{message}");
    }
}
