//! Settings of single runs.

use graph_core::{Durability, RunOptions, Stops};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Selects all nodes in [`RunSettings::stop_before`] and [`RunSettings::stop_after`].
pub(crate) const ALL_NODES: &str = "*";

/// Settings of a run. Those that are set replace the settings of the graph on the worker.
///
/// ```
/// use graph_cluster::{RunSettings, StartRun};
///
/// let settings = RunSettings { step_limit: Some(50), ..RunSettings::default() };
/// let request = StartRun::new("run-7", "essay", "thread-7").settings(settings);
/// # let _ = request;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// Maximum number of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_limit: Option<u32>,
    /// Maximum number of tasks that run concurrently within a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<usize>,
    /// When checkpoints are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Nodes before which the run stops. `*` selects all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_before: Option<Vec<String>>,
    /// Nodes after which the run stops. `*` selects all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after: Option<Vec<String>>,
    /// Configuration values, which nodes read with [`Context::config`](graph_core::Context::config).
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Metadata of the run's checkpoints.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl RunSettings {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the options with these settings.
    pub(crate) fn apply(&self, mut options: RunOptions) -> RunOptions {
        if let Some(limit) = self.step_limit {
            options = options.step_limit(limit);
        }
        if let Some(limit) = self.max_concurrency {
            options = options.max_concurrency(limit);
        }
        if let Some(durability) = self.durability {
            options = options.durability(durability);
        }
        if let Some(nodes) = &self.stop_before {
            options = options.stop_before(stops(nodes));
        }
        if let Some(nodes) = &self.stop_after {
            options = options.stop_after(stops(nodes));
        }
        for (key, value) in &self.config {
            options = options.config(key, value.clone());
        }
        for (key, value) in &self.metadata {
            options = options.metadata(key, value.clone());
        }
        options
    }
}

fn stops(nodes: &[String]) -> Stops {
    match nodes.iter().any(|it| it == ALL_NODES) {
        true => Stops::All,
        false => Stops::at(nodes.iter().cloned()),
    }
}
