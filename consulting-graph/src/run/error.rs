//! Errors of operations on runs.

use std::path::PathBuf;

use app_support::{event_log::EventLogError, files::FileError, lock::LockError};
use graph_core::NodePanicError;

use crate::{config::ConfigError, models::ModelChoiceError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error("directory {} is not empty; choose another directory with --out, or resume the run in it with `consulting resume`", .0.display())]
    DirNotEmpty(PathBuf),
    #[error("{} is not a run directory: it has no run.json", .0.display())]
    NotARun(PathBuf),
    #[error("another process is executing the run in {}; wait for it to finish, or stop it", .0.display())]
    Locked(PathBuf),
    #[error("the run is not waiting for a review; omit --reviewed")]
    NotAwaitingReview,
    #[error(
        "cannot replay the run, because its recording is incomplete; resume the run to restore the calls that its database contains: {0}"
    )]
    IncompleteRecording(String),
    #[error("{} is invalid: {problem}", path.display())]
    InvalidFile { path: PathBuf, problem: String },
    #[error("this program cannot resume the run:\n{}", .0.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n"))]
    Incompatible(Vec<String>),
    #[error("the configuration is invalid:\n{0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Model(#[from] ModelChoiceError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Events(#[from] EventLogError),
    #[error(transparent)]
    Recording(#[from] llm::RecordingError),
    #[error(transparent)]
    Database(#[from] graph_store::OpenError),
    #[error(transparent)]
    Sandbox(#[from] sandbox_vm::Error),
    #[error("unknown sandbox `{0}`; use one of: {1}")]
    UnknownBackend(String, String),
    #[error("the run in {} is executed by a cluster; add --cluster URL, with a program that was built with `--features cluster`", .0.display())]
    OnCluster(PathBuf),
    #[error("the run in {} was started on this machine; resume it without --cluster", .0.display())]
    NotOnCluster(PathBuf),
    #[error("the run has a {0}, which is not available on a cluster; resume it without --cluster")]
    UnsupportedOnCluster(&'static str),
    #[error("the run was started with Restate; add --restate URL")]
    OnRestate,
    #[error("the run was started without Restate; resume it without --restate")]
    NotOnRestate,
    #[error("the run failed on the cluster: {0}")]
    ClusterRunFailed(String),
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] graph_cluster::ClusterError),
    #[error(transparent)]
    Build(#[from] graph_core::BuildError),
    #[error("{}", execution_problem(.0))]
    Execution(#[from] graph_core::RunError),
    #[error("the results of the replay differ from those of the run:\n{}", .0.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n"))]
    ReplayDiffers(Vec<String>),
    #[error("{0}")]
    InvalidRequest(String),
    #[error("internal error: {0}")]
    Internal(String),
    #[error("--set {setting}: {problem}")]
    Setting { setting: String, problem: String },
}

/// Returns why an execution failed. The errors of the nodes name the agent that failed, so the node is named only if it
/// panicked.
fn execution_problem(error: &graph_core::RunError) -> String {
    match error {
        graph_core::RunError::Node { error: cause, .. } if !cause.is::<NodePanicError>() => {
            cause.to_string()
        }
        _ => error.to_string(),
    }
}

impl From<LockError> for RunError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held(dir) => Self::Locked(dir),
            LockError::File(error) => Self::File(error),
        }
    }
}
