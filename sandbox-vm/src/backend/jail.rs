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

mod handle;
mod init;
mod outer;
mod root;

use std::{
    io, os::unix::net::UnixStream as StdStream, path::PathBuf, process::Stdio, sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use graph_core::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    process::Command,
};

pub use init::init;
pub use outer::outer;

use self::handle::JailHandle;
use super::{Backend, Guest, confine::Bounds};
use crate::{
    Error,
    berth::{Berth, Leftover},
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    limits::Limits,
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

    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = vec![
            Guarantee::FilteredCalls,
            Guarantee::NoNetwork,
            Guarantee::NoHostFiles,
            Guarantee::OwnProcesses,
            Guarantee::NoPrivileges,
            Guarantee::ProcessLimit,
            Guarantee::DiskLimit,
        ];
        let has = |of| cgroup.is_some_and(|it| it.has(of));
        guarantees.extend(has(Controller::Memory).then_some(Guarantee::MemoryLimit));
        guarantees.extend(has(Controller::Cpu).then_some(Guarantee::CpuShare));
        guarantees.extend(has(Controller::Freezer).then_some(Guarantee::Pause));
        guarantees
    }
}

/// What the stages need to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    name: String,
    image: Image,
    bounds: Bounds,
    /// Files by which the outer stage joins the guest's control groups.
    groups: Vec<PathBuf>,
}

/// Why a jail was not built.
#[derive(Debug, thiserror::Error)]
#[error("the jail cannot {what}: {source}")]
pub struct JailError {
    what: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl JailError {
    fn new<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
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
        match super::try_out(self, "probe", PATIENCE).await {
            Err(error) => Report::fails(NAME, error.to_string()).advise(
                "let ordinary users make user namespaces, which root needs here too: \
                     `sysctl kernel.unprivileged_userns_clone=1` on Debian, \
                     `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu; \
                     in a container also `--security-opt seccomp=unconfined`",
            ),
            Ok(()) => {
                let id = format!("probe-{}", CheckpointId::next());
                let cgroup = Cgroup::make(&id, &Limits::default());
                let report = Report::works(NAME, Self::guarantees(cgroup.as_ref()));
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                match report.has(Guarantee::MemoryLimit) {
                    true => report,
                    false => report.advise(
                        "give this user a control group of its own, as `systemd-run --user --scope -p Delegate=yes` \
                         does: the kernel then bounds memory and processor share",
                    ),
                }
            }
        }
    }

    async fn start(&self, spec: &Spec, berth: &Berth) -> Result<Guest, Error> {
        if let Image::Named(_) = spec.image {
            return Err(Error::Unsupported { backend: NAME, what: "use an image of that name" });
        }
        let start = |problem: String| Error::Start { backend: NAME, problem };
        berth.note(Cgroup::folders_for(berth.id()).into_iter().map(Leftover::Cgroup))?;
        let cgroup = Cgroup::make(berth.id(), &spec.limits);
        let plan = plan(spec, cgroup.as_ref());
        let (ours, theirs) = StdStream::pair().map_err(Error::io("a pair of sockets"))?;
        let mut child = self.spawn(plan, theirs).map_err(|error| start(error.to_string()))?;
        let mut handle = JailHandle::new(cgroup, child.stderr.take());
        if let Some(pid) = child.id() {
            berth.note(Leftover::process(pid))?;
        }
        let lifeline = child.stdout.take();
        handle.keep(child);
        let mut lifeline = BufReader::new(lifeline.ok_or_else(|| start("no lifeline".to_owned()))?);
        // The outer stage says which process the guest is, or dies trying.
        let mut line = String::new();
        let _ = lifeline.read_line(&mut line).await;
        if handle.tie(&line, lifeline).is_err() {
            let words = handle.gather_words().await;
            return Err(start(if words.is_empty() {
                "it ended at once".to_owned()
            } else {
                words
            }));
        }
        let channel = connect(ours).map_err(Error::io("the channel to the guest"))?;
        Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
    }
}

impl Jail {
    fn spawn(&self, plan: Plan, channel: StdStream) -> io::Result<tokio::process::Child> {
        let mut command = std::process::Command::new(&self.program);
        GuestArgs::JailOuter(plan).apply(&mut command)?;
        // Nothing of the host's environment is any business of the guest.
        command.env_clear().current_dir("/");
        command.stdin(std::os::fd::OwnedFd::from(channel));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Command::from(command).kill_on_drop(true).spawn()
    }
}

fn plan(spec: &Spec, cgroup: Option<&Cgroup>) -> Plan {
    let limits = &spec.limits;
    let bounded = cgroup.is_some_and(|it| it.has(Controller::Memory));
    Plan {
        name: spec.name.clone(),
        image: spec.image.clone(),
        bounds: Bounds::new(limits, (!bounded).then_some(limits.memory)),
        groups: cgroup.map(Cgroup::entries).unwrap_or_default(),
    }
}

fn connect(stream: StdStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
