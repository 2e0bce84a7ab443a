//! The gVisor back end.

mod bundle;
mod init;
mod outer;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::OnceCell;

pub(crate) use init::init;
pub(crate) use outer::outer;

use super::{
    host::find_in_path,
    interface::{Backend, Guest},
    jail::{Jail, launch},
    names::GVISOR as NAME,
    plan::{GuestArgs, GvisorPlan},
    probe::probe_by_starting,
};
use crate::{
    Error,
    cgroup::Cgroup,
    limits::Limits,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::Spec,
};

const RUNSC: &str = "runsc";

/// How long a guest may take for the handshake when the back end is probed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

/// Memory in bytes that gVisor's own processes need in the guest's control group, in addition to the guest's limit.
const RUNSC_MEMORY: u64 = 64 << 20;

/// Number of OS threads that gVisor itself needs, for two Go programs and for one host process per guest process.
const RUNSC_THREADS: u32 = 128;

/// The gVisor back end. A user-space kernel, `runsc` with its systrap platform, handles the guest's system calls.
///
/// The layers of isolation are nested. The outer stage of the [jail](super::Jail) becomes the user `nobody` if it was
/// started by root, and creates the namespaces. `runsc` runs in these namespaces as an unprivileged user and intercepts
/// the guest's system calls. In the guest, the agent applies the same restrictions to itself as in the jail. Code that
/// breaks out of gVisor's kernel runs as this unprivileged user, in namespaces without a network, with a root directory
/// that contains `runsc` and the guest's own files. Landlock and the jail's seccomp filter do not apply to such code,
/// because gVisor itself needs more than they allow. gVisor installs its own seccomp filter instead.
///
/// Only the program `runsc` has to be installed. The back end needs no daemon, no root privileges and no image. The
/// guest's file tree is assembled for each guest and disappears with its namespaces.
///
/// ```no_run
/// use sandbox_vm::{Isolation, Sandboxes, backend::Gvisor, guest::{self, Agent}};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     guest::enter(Agent::new);
///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
///     runtime.block_on(async {
///         let builder = Sandboxes::builder().backend(Gvisor::this_program());
///         let sandboxes = builder.isolation(Isolation::Kernel).open().await?;
///         assert_eq!(sandboxes.backend(), "gvisor");
///         Ok(())
///     })
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Gvisor {
    program: PathBuf,
    /// Cached probe report. Probing again would start another guest.
    probed: Arc<OnceCell<Report>>,
}

impl Gvisor {
    /// Creates a back end whose guests run the current program. The program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else and be readable by every user.
    pub fn this_program() -> Self {
        Self::program("/proc/self/exe")
    }

    /// Creates a back end whose guests run another program. That program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else and be readable by every user.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into(), probed: Arc::default() }
    }

    /// Returns the guarantees of the jail, plus a separate kernel.
    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = Jail::guarantees(cgroup);
        guarantees.insert(0, Guarantee::OwnKernel);
        guarantees
    }

    async fn probe_once(&self) -> Report {
        if find_in_path(RUNSC).is_none() {
            return Report::unavailable(NAME, format!("{RUNSC} is not installed")).with_advice(
                "install gVisor: on Debian 12 `apt-get install -t bookworm-backports runsc`, with backports enabled in \
                 apt's sources; elsewhere see https://gvisor.dev/docs/user_guide/install/",
            );
        }
        match probe_by_starting(self, "probe-gvisor", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "gVisor runs in the jail's namespaces: if the jail is not available either, follow the advice in its \
                 report first",
            ),
            Ok(report) => report,
        }
    }
}

#[async_trait]
impl Backend for Gvisor {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        self.probed.get_or_init(|| self.probe_once()).await.clone()
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        let runsc = find_in_path(RUNSC).ok_or_else(|| Error::Start {
            backend: NAME,
            problem: format!("{RUNSC} is not installed"),
        })?;
        let cgroup = sandbox_dir.create_cgroup(&group_limits(&spec.limits))?;
        let guest = launch::jail_plan(NAME, spec, cgroup.as_ref())?;
        let plan = GuestArgs::GvisorOuter(GvisorPlan { runsc, guest });
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        launch::launch(launcher, cgroup, plan, sandbox_dir).await
    }
}

/// Returns the limits of the control group, which contains gVisor's kernel as well as the guest.
fn group_limits(limits: &Limits) -> Limits {
    Limits {
        memory: limits.memory.saturating_add(RUNSC_MEMORY),
        processes: limits.processes.saturating_add(RUNSC_THREADS),
        ..limits.clone()
    }
}
