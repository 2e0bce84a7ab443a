//! A run in a directory, with everything needed to resume, replay and fork it.
//!
//! | file | content |
//! |---|---|
//! | `run.json`, `config.toml` | configuration and environment of the run: the [`Manifest`] |
//! | `state.db` | the threads of the pipeline and of each move's debate |
//! | `calls.jsonl` | every model call with its answer, compressed, so that no call is paid for twice |
//! | `events.jsonl` | the event log |
//! | `reviewed.json` | the reviewer's decision |
//! | `cluster` | exists if a cluster executes the run; its threads are then in the cluster's database |
//! | `lock` | lock file, locked by the process that executes the run |
//! | `report.*`, `F1.md`, `m1.md`, `logs/` and more | the results |

mod error;
mod fork;
mod manifest;
pub mod new_run;
#[cfg(feature = "cluster")]
mod on_cluster;
mod options;
mod outcome;
mod replay;
mod resources;
mod result_files;
mod resume;
mod retry;
mod run_dir;
mod settings;
mod threads;

pub use error::RunError;
pub use fork::ForkPoint;
pub use manifest::{AgentModel, ForkOrigin, Manifest, RunConfig};
pub use options::ResumeOptions;
pub use replay::ReplayResult;
#[cfg(feature = "cluster")]
pub(crate) use resources::{fallback_sandboxes, open_sandboxes};
pub use resume::RunOutcome;
pub use run_dir::Run;
