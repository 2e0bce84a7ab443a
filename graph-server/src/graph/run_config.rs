//! The parameters of a run, as stored in the registry.

use graph_core::StreamMode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The input of a run, as stored in the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RunConfig {
    pub(super) graph: String,
    pub(super) thread: String,
    pub(super) input: Map<String, Value>,
    pub(super) modes: Vec<StreamMode>,
}

/// The arguments of a resume request, as stored in the registry: the answers, keyed by interrupt id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ResumeArgs {
    #[serde(default)]
    pub(super) answers: Map<String, Value>,
}
