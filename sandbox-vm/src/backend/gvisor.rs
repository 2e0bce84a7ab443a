//! gVisor: a guest whose system calls a kernel in user space answers, `runsc` with its platform systrap.
//!
//! The walls stand inside one another. The [outer stage](super::jail) of the jail makes namespaces and becomes nobody;
//! `runsc` runs in them, as a user who has nothing to lose, and takes the guest's system calls; in the guest the agent
//! closes the same doors behind itself as in the jail. What gets through gVisor's kernel is nobody, in namespaces without
//! a network, on a root that holds `runsc` and the guest's own files; landlock and the jail's list of system calls are
//! not around it, for gVisor needs more, and has a list of its own.
//!
//! Nothing has to be set up for it but the program `runsc`: no daemon, no root, no image. What the guest sees of files
//! is put together anew for each one, and goes with its namespaces.

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

/// The program.
const RUNSC: &str = "runsc";

/// How long a guest has for its first word, when it is tried out whether there can be one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// What gVisor's own processes need in the guest's control group, besides what the guest may use.
const RUNSC_MEMORY: u64 = 64 << 20;

/// How many threads they have: two programs in Go, and one of the host's processes for each of the guest's.
const RUNSC_THREADS: u32 = 128;

/// gVisor as a back end.
#[derive(Clone, Debug)]
pub struct Gvisor {
    program: PathBuf,
    /// A guest is started to find out whether one can be; once is enough.
    probed: Arc<OnceCell<Report>>,
}

/// What the stage that becomes `runsc` has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OuterPlan {
    runsc: PathBuf,
    image: Image,
    #[serde(rename = "folders")]
    shared_dirs: BTreeMap<String, PathBuf>,
    bounds: GuestLimits,
}

/// What the agent in the guest has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitPlan {
    bounds: GuestLimits,
}

impl Gvisor {
    /// Guests that are this program once more: it has to call [`guest::enter`](crate::guest::enter) first, and to lie
    /// where every user can read it.
    pub fn this_program() -> Self {
        Self::program("/proc/self/exe")
    }

    /// Guests that are another program, which calls [`guest::enter`](crate::guest::enter) first and lies where every
    /// user can read it.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into(), probed: Arc::default() }
    }

    /// The jail's, and a kernel of its own.
    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = Jail::guarantees(cgroup);
        guarantees.insert(0, Guarantee::OwnKernel);
        guarantees
    }

    async fn probe_once(&self) -> Report {
        if super::find_in_path(RUNSC).is_none() {
            return Report::unavailable(NAME, format!("{RUNSC} is not installed")).with_advice(
                "install gVisor: on Debian 12 `apt-get install -t bookworm-backports runsc`, with the backports among \
                 apt's sources; elsewhere see https://gvisor.dev/docs/user_guide/install/",
            );
        }
        match super::probe_by_starting(self, "probe-gvisor", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "gVisor runs in the jail's namespaces: where the jail is not available either, do first what its \
                 report says",
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
            return Err(Error::Unsupported {
                backend: NAME,
                operation: "use an image of that name",
            });
        }
        let runsc = super::find_in_path(RUNSC).ok_or_else(|| Error::Start {
            backend: NAME,
            problem: format!("{RUNSC} is not installed"),
        })?;
        let cgroup = launch::create_cgroup(sandbox_dir, &group_limits(&spec.limits))?;
        let memory_limited = cgroup.as_ref().is_some_and(|it| it.has(Controller::Memory));
        let data = (!memory_limited).then_some(spec.limits.memory);
        let bounds = GuestLimits::new(&spec.limits, data);
        let (image, shared_dirs) = (spec.image.clone(), spec.read_only_dirs.clone());
        let plan = OuterPlan { runsc, image, shared_dirs, bounds };
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        launch::launch(launcher, cgroup, GuestArgs::GvisorOuter(plan), sandbox_dir).await
    }
}

/// The limits of the control group, which holds gVisor's kernel together with the guest.
fn group_limits(limits: &Limits) -> Limits {
    Limits {
        memory: limits.memory.saturating_add(RUNSC_MEMORY),
        processes: limits.processes.saturating_add(RUNSC_THREADS),
        ..limits.clone()
    }
}
