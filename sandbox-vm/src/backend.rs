//! Back ends: the ways to start a guest.
//!
//! A back end is small. It starts a guest with an agent in it and hands back a byte stream to that agent and a
//! [`Handle`] to the guest as a whole. Programs, files and graphs are the agent's business and the same everywhere.

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

/// What a guest is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Programs, and graphs too.
    Programs,
    /// Graphs alone.
    Graphs,
}

/// All back ends that isolate, strongest first, for guests that are this program: static, readable for every user, and
/// calling [`guest::enter`](crate::guest::enter) first.
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
    /// Its name: `"jail"`.
    fn name(&self) -> &'static str;

    /// Says what holds on this machine: whether it can start a guest, and what it guarantees then.
    ///
    /// It tries things out and does not look at versions; a second call may take as long as the first.
    async fn probe(&self) -> Report;

    /// Starts a guest. All that would outlive a crash of this process is noted in the sandbox directory first.
    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error>;

    /// How many bytes of the host's memory a guest of this kind may take, with all that the back end needs for it.
    fn footprint(&self, spec: &Spec) -> u64 {
        spec.limits.memory
    }

    /// Starts a guest from a snapshot that [`Handle::snapshot`] made.
    async fn restore(&self, _: &Spec, _: &SandboxDir, _: &Snapshot) -> Result<Guest, Error> {
        Err(Error::Unsupported { backend: self.name(), operation: "restore a snapshot" })
    }
}

/// A guest that was started.
#[derive(Debug)]
pub struct Guest {
    /// The stream to its agent.
    pub channel: Box<dyn Channel>,
    /// The guest as a whole.
    pub handle: Arc<dyn Handle>,
}

/// A stream of bytes in both directions.
pub trait Channel: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug> Channel for T {}

/// A guest as a whole. Dropping the last handle ends the guest.
#[async_trait]
pub trait Handle: Send + Sync + fmt::Debug {
    /// Ends the guest with all that runs in it, and returns once nothing of it runs any more.
    async fn kill(&self);

    /// Stops the guest's processors until [`resume`](Self::resume).
    async fn pause(&self) -> Result<(), Error>;

    /// Lets a paused guest go on.
    async fn resume(&self) -> Result<(), Error>;

    /// What the guest has used so far, as the host sees it; `None` where it cannot see it.
    async fn usage(&self) -> Option<Usage>;

    /// The limit that the guest has run into since this was last asked, as far as the back end itself knows of it.
    async fn exceeded_limit(&self) -> Option<ExceededLimit>;

    /// What the guest wrote outside the channel: the last words of one that died, or is about to. They are waited for,
    /// a moment.
    async fn diagnostic_output(&self) -> String;

    /// Keeps the guest's whole state, in a folder that belongs to the caller.
    async fn snapshot(&self, dir: PathBuf) -> Result<Snapshot, Error>;
}

/// A guest's whole state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The back end that made it.
    pub backend: &'static str,
    /// The folder that holds it.
    pub dir: PathBuf,
}

/// Starts a guest, waits for its first word and ends it again.
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

/// Ends a guest that did not greet as it should, and says why it did not.
pub(crate) async fn reject(handle: &dyn Handle, error: RequestError) -> String {
    // One that ends by itself may be about to say why; any other is silent until it is ended.
    let (problem, early) = match error {
        RequestError::Timeout(after) => (format!("it did not greet within {after:?}"), None),
        RequestError::Closed(CloseReason::Protocol(error)) => (error.to_string(), None),
        RequestError::Closed(CloseReason::ChannelClosed) => {
            ("it ended at once".to_owned(), Some(handle.diagnostic_output().await))
        }
        RequestError::Fault(fault) => (fault.message, None),
    };
    handle.kill().await;
    let words = match early {
        Some(words) => words,
        None => handle.diagnostic_output().await,
    };
    if words.is_empty() { problem } else { format!("{problem}; {words}") }
}

/// Tries a back end out, and reports what holds for its guests where they have such a control group as is made here.
async fn probe_by_starting(
    backend: &dyn Backend,
    id: &str,
    timeout: Duration,
    guarantees: fn(Option<&Cgroup>) -> Vec<Guarantee>,
) -> Result<Report, Error> {
    start_and_stop(backend, id, timeout).await?;
    // The group goes with the sandbox directory, also after a crash.
    let sandbox_dir = SandboxDir::create_for_probe(id)?;
    let cgroup = jail::launch::create_cgroup(&sandbox_dir, &Limits::default())?;
    Ok(Report::available(backend.name(), guarantees(cgroup.as_ref())))
}

/// What holds for every guest in a VM whose monitor is in the jail's walls.
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

/// Where a program is that can be started by its name alone.
fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.is_file())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

    use super::{Jail, Workload, isolating_backends, start_and_stop};

    #[test]
    fn the_strongest_comes_first() {
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

    /// The channel closes before the reason is said: whoever ended it at once would never hear it.
    #[tokio::test]
    async fn a_guest_that_ends_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let script = "sleep 0.3 </dev/null & echo guest $!\nexec 0</dev/null\nsleep 0.3\necho no such luck >&2";
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let tried =
            start_and_stop(&Jail::program(program), "probe-test", Duration::from_secs(30)).await;
        let said = tried.unwrap_err().to_string();
        assert!(said.ends_with("it ended at once; no such luck"), "{said}");
    }
}
