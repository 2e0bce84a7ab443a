//! Configurations of runs and assistants.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::body::or_default;
use crate::langgraph::error::{ApiError, ApiResult};

/// Metadata of an object.
pub(in crate::langgraph) type Metadata = Map<String, Value>;

/// The configuration of a run or an assistant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct Config {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub(in crate::langgraph) configurable: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub(in crate::langgraph) metadata: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(in crate::langgraph) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) recursion_limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) max_concurrency: Option<usize>,
    /// Name of the run in the `events` stream. The default is the name of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) run_name: Option<String>,
}

/// Keys of `configurable` that identify a run, its graph and its checkpoints. Clients copy them from states and runs
/// into configurations.
const ADDRESS_KEYS: [&str; 7] = [
    "thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "graph_id",
    "assistant_id",
];

impl Config {
    /// Fails if both a context and configurable values were given. The two are the same settings under an old and a
    /// new name, so they could contradict each other.
    pub(in crate::langgraph) fn check_context(
        &self,
        context: Option<&Map<String, Value>>,
    ) -> ApiResult<()> {
        let both = context.is_some_and(|it| !it.is_empty()) && !self.settings().is_empty();
        if both {
            let detail = "a request cannot have both `context` and `config.configurable`; move the configurable \
                          values into `context`";
            return Err(ApiError::bad_request(detail));
        }
        Ok(())
    }

    /// Takes the tags, the limits and the name of a run from the configuration of its assistant, unless they are set.
    pub(in crate::langgraph) fn complete_from(&mut self, assistant: Self) {
        if self.tags.is_empty() {
            self.tags = assistant.tags;
        }
        self.recursion_limit = self.recursion_limit.or(assistant.recursion_limit);
        self.max_concurrency = self.max_concurrency.or(assistant.max_concurrency);
        self.run_name = self.run_name.take().or(assistant.run_name);
    }

    /// Returns the configurable values that are settings, not addresses.
    pub(in crate::langgraph) fn settings(&self) -> Map<String, Value> {
        let mut settings = self.configurable.clone();
        settings.retain(|key, _| !ADDRESS_KEYS.contains(&key.as_str()) && !key.starts_with("__"));
        settings
    }
}
