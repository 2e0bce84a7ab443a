//! Settings that a run shares with its subgraphs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{checkpoint::writer::Durability, effects::Interceptor};

/// Settings of a run and its subgraphs. Sent to other processes without the effect interceptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunSettings {
    pub(crate) step_limit: u32,
    pub(crate) max_concurrency: Option<usize>,
    pub(crate) durability: Durability,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) config: Map<String, Value>,
    #[serde(skip)]
    pub(crate) effects: Option<Interceptor>,
}
