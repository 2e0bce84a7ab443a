//! Back ends: the ways to start a guest.
//!
//! A back end is small. It starts a guest with an agent in it and hands back a byte stream to that agent and a
//! [`Handle`] to the guest as a whole. Programs, files and graphs are the agent's business and the same everywhere.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Error,
    berth::Berth,
    cgroup::Cgroup,
    limits::{Cause, Limits, Usage},
    report::{Guarantee, Report},
    session::Session,
    spec::Spec,
};

mod calls;
mod confine;
pub mod contained;
mod descriptors;
#[cfg(feature = "docker")]
pub mod docker;
pub mod gvisor;
pub mod in_process;
pub mod jail;
#[cfg(target_arch = "x86_64")]
pub mod kvm_process;
pub mod microvm;
mod words;

#[cfg(feature = "docker")]
pub use docker::Docker;
pub use gvisor::Gvisor;
pub use in_process::InProcess;
pub use jail::Jail;
#[cfg(target_arch = "x86_64")]
pub use kvm_process::KvmProcess;
pub use microvm::MicroVm;

/// A way to start guests.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// Its name: `"jail"`.
    fn name(&self) -> &'static str;

    /// Says what holds on this machine: whether it can start a guest, and what it guarantees then.
    ///
    /// It tries things out and does not look at versions; a second call may take as long as the first.
    async fn probe(&self) -> Report;

    /// Starts a guest. All that would outlive a crash of this process is noted in the berth first.
    async fn start(&self, spec: &Spec, berth: &Berth) -> Result<Guest, Error>;

    /// How many bytes of the host's memory a guest of this kind may take, with all that the back end needs for it.
    fn footprint(&self, spec: &Spec) -> u64 {
        spec.limits.memory
    }

    /// Starts a guest from a snapshot that [`Handle::snapshot`] made.
    async fn restore(&self, _: &Spec, _: &Berth, _: &Snapshot) -> Result<Guest, Error> {
        Err(Error::Unsupported { backend: self.name(), what: "restore a snapshot" })
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
    async fn cause(&self) -> Option<Cause>;

    /// What the guest wrote outside the channel: the last words of one that died.
    async fn last_words(&self) -> String;

    /// Keeps the guest's whole state, in a folder that belongs to the caller.
    async fn snapshot(&self, folder: PathBuf) -> Result<Snapshot, Error>;
}

/// A guest's whole state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The back end that made it.
    pub backend: &'static str,
    /// The folder that holds it.
    pub folder: PathBuf,
}

/// Starts a guest, waits for its first word and ends it again.
async fn try_out(backend: &dyn Backend, id: &str, patience: Duration) -> Result<(), Error> {
    let berth = Berth::temporary(id)?;
    let guest = backend.start(&Spec::new("probe"), &berth).await?;
    let greeted = Session::open(guest.channel, patience).await;
    guest.handle.kill().await;
    match greeted {
        Ok(_) => Ok(()),
        Err(error) => {
            let problem = format!("{error:?} {}", guest.handle.last_words().await);
            Err(Error::Start { backend: backend.name(), problem })
        }
    }
}

/// Tries a back end out, and reports what holds for its guests where they have such a control group as is made here.
async fn try_and_report(
    backend: &dyn Backend,
    id: &str,
    patience: Duration,
    guarantees: fn(Option<&Cgroup>) -> Vec<Guarantee>,
) -> Result<Report, Error> {
    try_out(backend, id, patience).await?;
    // The group goes with the berth, also after a crash.
    let berth = Berth::temporary(id)?;
    let cgroup = jail::launch::group(&berth, &Limits::default())?;
    Ok(Report::works(backend.name(), guarantees(cgroup.as_ref())))
}

/// Where a program is that can be started by its name alone.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.is_file())
}
