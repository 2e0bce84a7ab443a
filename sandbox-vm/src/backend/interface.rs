//! The interface between sandboxes and back ends.

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Error,
    limits::{ExceededLimit, Usage},
    report::Report,
    sandbox_dir::SandboxDir,
    spec::Spec,
};

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
    /// Returns the name of the back end that started the guest.
    fn backend(&self) -> &'static str;

    /// Ends the guest and everything that runs in it. Returns once none of its processes is running any more.
    async fn kill(&self);

    /// Stops the guest's processors until [`resume`](Self::resume) is called.
    async fn pause(&self) -> Result<(), Error> {
        Err(Error::Unsupported { backend: self.backend(), operation: "pause a guest" })
    }

    /// Resumes a paused guest.
    async fn resume(&self) -> Result<(), Error> {
        Err(Error::Unsupported { backend: self.backend(), operation: "resume a guest" })
    }

    /// Returns the resources that the guest has used so far, or `None` if the host cannot measure them.
    async fn usage(&self) -> Option<Usage> {
        None
    }

    /// Returns a limit that programs in the guest have exceeded since the last call, or `None` if the back end has not
    /// detected any. A guest that detects this by itself reports it together with the program's exit status.
    async fn exceeded_limit(&self) -> Option<ExceededLimit> {
        None
    }

    /// Returns the limit that ended the guest itself, or `None` if it ended for another reason. `output` is the
    /// [`diagnostic_output`](Self::diagnostic_output) of the ended guest.
    async fn termination_limit(&self, _output: &str) -> Option<ExceededLimit> {
        self.exceeded_limit().await
    }

    /// Returns the last part of the output that the guest wrote outside the channel. This is its standard error or, for
    /// a VM, its console. Waits a moment, so that a guest that is just ending can write its last output.
    async fn diagnostic_output(&self) -> String {
        String::new()
    }

    /// Saves the guest's complete state in the directory `dir`, which belongs to the caller.
    async fn snapshot(&self, _dir: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: self.backend(), operation: "create a snapshot" })
    }
}

/// A guest's complete state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the back end that created the snapshot.
    pub backend: &'static str,
    /// Directory that contains the snapshot.
    pub dir: PathBuf,
}
