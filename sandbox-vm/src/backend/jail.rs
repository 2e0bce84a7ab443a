//! The jail: walls that every Linux kernel has, and nothing to install.
//!
//! A guest is a process of an unprivileged user in namespaces of its own (user, mount, process, network, IPC, host name,
//! control group), on a root that holds nothing but its image and is read-only, with a list of system calls it may make,
//! landlock, no capabilities and no way to get any, and limits by control groups where they can be written, by resource
//! limits where not. It works for root, who first becomes `nobody`, and for an ordinary user.
//!
//! It takes two stages, and no `fork` of ours: the [`outer`] stage makes the namespaces and starts the second with
//! std's `Command`, which makes it process 1 of the new process namespace; the [`init`] stage builds the root around
//! itself, locks the door and serves. Both are the application's own program, or a helper that the application names.

pub(super) mod handle;
pub(super) mod init;
pub(super) mod launch;
mod outer;
pub(super) mod root;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use init::init;
pub use outer::outer;

use super::{Backend, Guest, confine::GuestLimits};
use crate::{
    Error,
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::{Image, Spec},
};

const NAME: &str = "jail";

/// How long a guest has for its first word, when it is tried out whether there can be one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The jail as a back end.
#[derive(Clone, Debug)]
pub struct Jail {
    program: PathBuf,
}

impl Jail {
    /// A jail whose guests are this program once more: it has to call [`guest::enter`](crate::guest::enter) first.
    pub fn this_program() -> Self {
        Self { program: PathBuf::from("/proc/self/exe") }
    }

    /// A jail whose guests are another program, which calls [`guest::enter`](crate::guest::enter) first.
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

/// What the outer stage needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OuterPlan {
    /// Files by which it joins the guest's control groups.
    #[serde(rename = "groups")]
    cgroup_files: Vec<PathBuf>,
    /// What it starts in the namespaces.
    next: Box<GuestArgs>,
}

/// What the inner stage needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitPlan {
    image: Image,
    #[serde(rename = "folders")]
    shared_dirs: BTreeMap<String, PathBuf>,
    bounds: GuestLimits,
}

impl InitPlan {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn new(image: Image, bounds: GuestLimits) -> Self {
        Self { image, shared_dirs: BTreeMap::new(), bounds }
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn bounds(&self) -> &GuestLimits {
        &self.bounds
    }
}

/// What every line starts with in which a stage says why it ended.
pub(super) const ERROR_PREFIX: &str = "the sandbox cannot";

/// Why a jail was not built.
#[derive(Debug, thiserror::Error)]
#[error("{} {what}: {source}", ERROR_PREFIX)]
pub struct StageError {
    what: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StageError {
    pub(super) fn new<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let what = what.into();
        |source| Self { what, source: source.into() }
    }
}

#[async_trait]
impl Backend for Jail {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        match super::probe_by_starting(self, "probe", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "let ordinary users make user namespaces, which root needs here too: \
                     `sysctl kernel.unprivileged_userns_clone=1` on Debian, \
                     `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu; \
                     in a container also `--security-opt seccomp=unconfined`",
            ),
            Ok(report) if report.has(Guarantee::MemoryLimit) => report,
            Ok(report) => report.with_advice(
                "give this user a control group of its own, as `systemd-run --user --scope -p Delegate=yes` does: the \
                 kernel then bounds memory and processor share",
            ),
        }
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        if let Image::Named(_) = spec.image {
            return Err(Error::Unsupported {
                backend: NAME,
                operation: "use an image of that name",
            });
        }
        let cgroup = launch::create_cgroup(sandbox_dir, &spec.limits)?;
        let memory_limited = cgroup.as_ref().is_some_and(|it| it.has(Controller::Memory));
        let data = (!memory_limited).then_some(spec.limits.memory);
        let plan = InitPlan {
            image: spec.image.clone(),
            shared_dirs: spec.read_only_dirs.clone(),
            bounds: GuestLimits::new(&spec.limits, data),
        };
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        launch::launch(launcher, cgroup, GuestArgs::JailInit(plan), sandbox_dir).await
    }
}
