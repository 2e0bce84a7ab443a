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

use super::{Backend, Guest, confine::Bounds};
use crate::{
    Error,
    berth::Berth,
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    report::{Guarantee, Report},
    spec::{Image, Spec},
};

const NAME: &str = "jail";

/// How long a guest has for its first word, when it is tried out whether there can be one.
const PATIENCE: Duration = Duration::from_secs(20);

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
            Guarantee::Folders,
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
pub struct Stage {
    /// Files by which it joins the guest's control groups.
    groups: Vec<PathBuf>,
    /// What it starts in the namespaces.
    next: Box<GuestArgs>,
}

/// What the inner stage needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    image: Image,
    folders: BTreeMap<String, PathBuf>,
    bounds: Bounds,
}

impl Plan {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn new(image: Image, bounds: Bounds) -> Self {
        Self { image, folders: BTreeMap::new(), bounds }
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}

/// What every line starts with in which a stage says why it ended.
pub(super) const CANNOT: &str = "the sandbox cannot";

/// Why a jail was not built.
#[derive(Debug, thiserror::Error)]
#[error("{} {what}: {source}", CANNOT)]
pub struct JailError {
    what: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl JailError {
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
        match super::try_and_report(self, "probe", PATIENCE, Self::guarantees).await {
            Err(error) => Report::fails(NAME, error.to_string()).advise(
                "let ordinary users make user namespaces, which root needs here too: \
                     `sysctl kernel.unprivileged_userns_clone=1` on Debian, \
                     `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu; \
                     in a container also `--security-opt seccomp=unconfined`",
            ),
            Ok(report) if report.has(Guarantee::MemoryLimit) => report,
            Ok(report) => report.advise(
                "give this user a control group of its own, as `systemd-run --user --scope -p Delegate=yes` does: the \
                 kernel then bounds memory and processor share",
            ),
        }
    }

    async fn start(&self, spec: &Spec, berth: &Berth) -> Result<Guest, Error> {
        if let Image::Named(_) = spec.image {
            return Err(Error::Unsupported { backend: NAME, what: "use an image of that name" });
        }
        let cgroup = launch::group(berth, &spec.limits)?;
        let bounded = cgroup.as_ref().is_some_and(|it| it.has(Controller::Memory));
        let data = (!bounded).then_some(spec.limits.memory);
        let plan = Plan {
            image: spec.image.clone(),
            folders: spec.folders.clone(),
            bounds: Bounds::new(&spec.limits, data),
        };
        let by = launch::By { backend: NAME, program: &self.program };
        launch::launch(by, cgroup, GuestArgs::JailInit(plan), berth).await
    }
}
