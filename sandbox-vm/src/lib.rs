//! Runs untrusted programs and compiled graphs in sandboxes, behind one interface for several kinds of isolation.
//!
//! A [`Sandbox`] is a handle to one guest, in which an agent executes the host's commands. The strength of the
//! isolation depends on the [back end](backend); a [`Report`](report::Report) lists the guarantees that hold on this
//! machine.
//!
//! ```standalone_crate
//! use sandbox_vm::{Image, Program, Sandboxes, Spec, backend::Jail, guest::{self, Agent}};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // If this process was started as a guest, `enter` runs the guest and does not return.
//!     guest::enter(Agent::new);
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     runtime.block_on(async {
//!         let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
//!         let spec = Spec::new("job-7").image(Image::Python);
//!         let sandbox = sandboxes.create_if_not_exists(spec).await?;
//!         let output = sandbox.exec(Program::new("python3").args(["-c", "print(6 * 7)"])).await?;
//!         assert_eq!(output.stdout, b"42\n");
//!         sandbox.delete().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The book's chapter [Sandboxes](../book/sandboxes.html) is a guide, and the [threat model](../book/threat-model.html)
//! lists the guarantees and their tests; `cargo xtask book` renders them.
//!
//! # Terms
//!
//! - The **host** is the process that creates sandboxes. A **guest** is the isolated environment of one sandbox. The
//!   **agent** is the program inside the guest that executes the host's commands, over one byte stream.
//! - A **back end** is one way to start guests.
//! - A graph in a guest makes **host calls**: it asks the host to store and load its checkpoints, and to make
//!   **external calls** such as model requests. A [`CallPolicy`] decides which external calls are allowed.
//! - A **sandbox directory** is the host's directory for one sandbox. It lists everything that would outlive a crash of
//!   the host, so that the next host process can clean up.

pub mod backend;
mod call_policy;
mod cgroup;
mod error;
mod exec;
mod files;
pub mod guest;
mod host_function;
pub mod image;
mod limits;
mod meter;
mod pool;
#[doc(hidden)]
pub mod protocol;
pub mod report;
mod run;
mod sandbox;
pub mod sandbox_dir;
mod sandboxed;
mod sandboxes;
#[cfg(test)]
mod script_file;
mod session;
mod spec;
mod sync;
mod sys;

pub use call_policy::{CallError, CallExecutor, CallPolicy};
pub use error::{Error, TerminationReason};
pub use exec::{Output, PartialOutput, Program, Status};
pub use files::{Files, MAX_FILE_SIZE};
pub use host_function::{HostFunction, HostFunctions};
pub use limits::{ExceededLimit, ExecLimits, Limits, Usage};
pub use pool::{Pool, PoolMetrics, PoolOptions, PooledSandbox};
pub use protocol::{
    ProtocolError,
    message::{Entry, EntryKind, Fault, FaultCode},
};
pub use run::{GraphRun, RunningGraph, input_fields};
pub use sandbox::Sandbox;
pub use sandboxed::{SandboxOptions, sandboxed};
pub use sandboxes::{Isolation, Sandboxes, SandboxesBuilder};
pub use spec::{Image, Spec};
