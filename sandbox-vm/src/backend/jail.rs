//! The jail back end.

pub(super) mod handle;
pub(super) mod init;
pub(super) mod launch;
mod outer;
pub(super) mod root;

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;

pub(crate) use init::init;
pub(crate) use outer::outer;

use super::{
    interface::{Backend, Guest},
    names::JAIL as NAME,
    plan::GuestArgs,
    probe::probe_by_starting,
};
use crate::{
    Error,
    cgroup::{Cgroup, Controller},
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::Spec,
};

/// How long a guest may take for the handshake when the back end is probed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

/// The jail back end. It isolates guests with features that every Linux kernel has, so nothing has to be installed.
///
/// A guest is a process that runs as an unprivileged user in its own namespaces (user, mount, process, network, IPC,
/// host name, control group), with a read-only root directory that contains only its image. It is restricted by a
/// seccomp allow list and by Landlock, and it has no capabilities and no way to gain any. Its resources are limited by
/// control groups if this process can write to the cgroup tree, and by `setrlimit` otherwise. Both the root user and
/// ordinary users can start jails. A jail that the root user starts runs as `nobody`.
///
/// A guest starts in two stages, so that this crate never has to call `fork` itself. The outer stage creates the
/// namespaces and starts the second stage with std's `Command`. The second stage is therefore process 1 of
/// the new process namespace. It builds its root directory, applies the restrictions and serves requests from the host.
/// Both stages run the application's own program, or a helper program that the application specifies.
///
/// ```standalone_crate
/// use sandbox_vm::{Image, Program, Sandboxes, Spec, backend::Jail, guest::{self, Agent}};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     // The jail starts this program again as the guest, which never returns from `enter`.
///     guest::enter(Agent::new);
///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
///     runtime.block_on(async {
///         let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
///         let spec = Spec::new("job-7").image(Image::Python);
///         let sandbox = sandboxes.create_if_not_exists(spec).await?;
///         let output = sandbox.exec(Program::new("python3").args(["-c", "print('hello')"])).await?;
///         assert!(output.isolated);
///         assert_eq!(output.stdout, b"hello\n");
///         Ok(())
///     })
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Jail {
    program: PathBuf,
}

impl Jail {
    /// Creates a jail whose guests run the current program. The program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else.
    pub fn this_program() -> Self {
        Self { program: PathBuf::from("/proc/self/exe") }
    }

    /// Creates a jail whose guests run another program. That program has to call [`guest::enter`](crate::guest::enter)
    /// before anything else.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into() }
    }

    pub(super) fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = vec![
            Guarantee::FilteredCalls,
            Guarantee::NoNetwork,
            Guarantee::NoHostFiles,
            Guarantee::OwnProcesses,
            Guarantee::NoPrivileges,
            Guarantee::ProcessLimit,
            Guarantee::DiskLimit,
            Guarantee::Programs,
            Guarantee::SharedDirectories,
        ];
        let has = |of| cgroup.is_some_and(|it| it.has(of));
        guarantees.extend(has(Controller::Memory).then_some(Guarantee::MemoryLimit));
        guarantees.extend(has(Controller::Cpu).then_some(Guarantee::CpuShare));
        guarantees.extend(has(Controller::Freezer).then_some(Guarantee::Pause));
        guarantees
    }
}

#[async_trait]
impl Backend for Jail {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        match probe_by_starting(self, "probe", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "allow unprivileged user namespaces, which are needed even if this program runs as root: \
                     `sysctl kernel.unprivileged_userns_clone=1` on Debian, \
                     `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu; \
                     in a container also `--security-opt seccomp=unconfined`",
            ),
            Ok(report) if report.has(Guarantee::MemoryLimit) => report,
            Ok(report) => report.with_advice(
                "log in with a session of `systemd --user`, or delegate a control group of version 2 with the memory \
                 controller to this user; the kernel then limits memory and processor share",
            ),
        }
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        let cgroup = sandbox_dir.create_cgroup(&spec.limits)?;
        let plan = launch::jail_plan(NAME, spec, cgroup.as_ref())?;
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        launch::launch(launcher, cgroup, GuestArgs::JailInit(plan), sandbox_dir).await
    }
}

#[cfg(test)]
mod tests;
