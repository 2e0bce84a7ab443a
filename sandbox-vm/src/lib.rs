//! Runs what is not trusted: programs, files and compiled graphs, behind one interface and several kinds of walls.
//!
//! A [`Sandbox`] is a guest with an agent in it, and a handle to talk to it. How strong its walls are depends on the
//! [back end](backend); a [`Report`](report::Report) says which guarantees hold on this machine.
//!
//! ```no_run
//! use sandbox_vm::{Image, Program, Sandboxes, Spec, backend::Jail, guest::{self, Agent}};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Where the process was started as a guest, it becomes one here.
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
//! # The words
//!
//! - The **host** is the process that makes sandboxes; a **guest** is what runs in one; the **agent** is the program in
//!   the guest that does what the host asks, over one byte stream.
//! - A **back end** is a way to start guests.
//! - A graph in a guest asks its host for calls to the outside, through a [`CallPolicy`], and for its checkpoints.
//! - A **sandbox directory** is the host's folder for one sandbox, from which the next process cleans up after a crash.

pub mod backend;
mod call_policy;
pub mod cgroup;
mod error;
mod exec;
mod files;
pub mod guest;
pub mod image;
pub mod limits;
mod meter;
mod pool;
pub mod protocol;
pub mod report;
mod run;
mod sandbox;
pub mod sandbox_dir;
mod sandboxes;
mod session;
mod spec;
mod sys;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use call_policy::{CallError, CallExecutor, CallPolicy};
pub use error::{Error, TerminationReason};
pub use exec::{Output, Program, Status};
pub use files::{Files, MAX_FILE_SIZE};
pub use limits::{ExceededLimit, ExecLimits, Limits, Usage};
pub use pool::{Pool, PoolMetrics, PoolOptions, PooledSandbox};
pub use protocol::message::{Entry, EntryKind};
pub use run::{GraphRun, RunningGraph, input_fields};
pub use sandbox::Sandbox;
pub use sandboxes::{Isolation, Sandboxes, SandboxesBuilder};
pub use spec::{Image, Spec};
