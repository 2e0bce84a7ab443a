//! The gVisor back end. A user-space kernel, `runsc` with its systrap platform, handles the guest's system calls.
//!
//! The layers of isolation are nested. The [outer stage](super::jail) of the jail becomes the user `nobody` if it was
//! started by root, and creates the namespaces. `runsc` runs in these namespaces as an unprivileged user and intercepts
//! the guest's system calls. In the guest, the agent applies the same restrictions to itself as in the jail. Code that
//! breaks out of gVisor's kernel runs as this unprivileged user, in namespaces without a network, with a root directory
//! that contains `runsc` and the guest's own files. Landlock and the jail's seccomp filter do not apply to such code,
//! because gVisor itself needs more than they allow. gVisor installs its own seccomp filter instead.
//!
//! Only the program `runsc` has to be installed. The back end needs no daemon, no root privileges and no image. The
//! guest's file tree is assembled for each guest and disappears with its namespaces.

mod bundle;
mod init;
mod outer;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

pub use init::init;
pub use outer::outer;

use super::{Backend, Guest, Jail, confine::GuestLimits, jail::launch};
use crate::{
    Error,
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    limits::Limits,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::{Image, Spec},
};

const NAME: &str = "gvisor";

/// Name of gVisor's program.
const RUNSC: &str = "runsc";

/// How long a guest may take for the handshake when the back end is probed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Memory in bytes that gVisor's own processes need in the guest's control group, in addition to the guest's limit.
const RUNSC_MEMORY: u64 = 64 << 20;

/// Number of OS threads that gVisor itself needs, for two Go programs and for one host process per guest process.
const RUNSC_THREADS: u32 = 128;

/// The gVisor back end.
#[derive(Clone, Debug)]
pub struct Gvisor {
    program: PathBuf,
    /// Cached probe report. Probing again would start another guest.
    probed: Arc<OnceCell<Report>>,
}

/// Settings for the stage that becomes `runsc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OuterPlan {
    runsc: PathBuf,
    image: Image,
    #[serde(rename = "folders")]
    shared_dirs: BTreeMap<String, PathBuf>,
    bounds: GuestLimits,
}

/// Settings for the agent in the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitPlan {
    bounds: GuestLimits,
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
        if super::find_in_path(RUNSC).is_none() {
            return Report::unavailable(NAME, format!("{RUNSC} is not installed")).with_advice(
                "install gVisor: on Debian 12 `apt-get install -t bookworm-backports runsc`, with backports enabled in \
                 apt's sources; elsewhere see https://gvisor.dev/docs/user_guide/install/",
            );
        }
        match super::probe_by_starting(self, "probe-gvisor", PROBE_TIMEOUT, Self::guarantees).await {
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
        if let Image::Named(_) = spec.image {
            return Err(Error::Unsupported { backend: NAME, operation: "use a named image" });
        }
        let runsc = super::find_in_path(RUNSC).ok_or_else(|| Error::Start {
            backend: NAME,
            problem: format!("{RUNSC} is not installed"),
        })?;
        let cgroup = launch::create_cgroup(sandbox_dir, &group_limits(&spec.limits))?;
        let memory_limited = cgroup.as_ref().is_some_and(|it| it.has(Controller::Memory));
        let data = (!memory_limited).then_some(spec.limits.memory);
        let bounds = GuestLimits::new(&spec.limits, data);
        let (image, shared_dirs) = (spec.image.clone(), spec.shared_dirs.clone());
        let plan = OuterPlan { runsc, image, shared_dirs, bounds };
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        launch::launch(launcher, cgroup, GuestArgs::GvisorOuter(plan), sandbox_dir).await
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
