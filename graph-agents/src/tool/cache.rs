//! Cached results of a tool.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::output::ToolOutput;
use crate::lock::lock;

/// An in-memory cache of tool results, by tool and arguments. Clones share the results.
///
/// Only values are cached, with or without an artifact. Failures, commands and messages are not. Do not cache a tool
/// whose result depends on more than its arguments, such as the agent's state.
///
/// ```
/// use std::time::Duration;
/// use graph_agents::{ToolCache, tool};
///
/// /// Returns the weather in a city.
/// #[tool]
/// async fn weather(city: String) -> String {
///     format!("It rains in {city}.")
/// }
///
/// let cache = ToolCache::new().ttl(Duration::from_secs(600));
/// // Pass the tool to `Agent::tools`. An equal call within ten minutes does not run again.
/// let weather = weather().cache(cache);
/// assert_eq!(weather.name(), "weather");
/// ```
#[derive(Clone, Debug)]
pub struct ToolCache {
    ttl: Option<Duration>,
    capacity: usize,
    results: Arc<Mutex<BTreeMap<String, Cached>>>,
}

#[derive(Clone, Debug)]
struct Cached {
    output: ToolOutput,
    stored_at: Instant,
}

impl ToolCache {
    /// Default maximum number of results.
    const CAPACITY: usize = 1_000;

    /// Creates a cache whose results never expire.
    pub fn new() -> Self {
        Self { ttl: None, capacity: Self::CAPACITY, results: Arc::default() }
    }

    /// Sets the lifetime of a result.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the maximum number of results. A new result replaces the oldest one. The default is 1,000.
    #[must_use]
    pub fn capacity(mut self, results: usize) -> Self {
        self.capacity = results;
        self
    }

    pub(super) fn get(&self, tool: &str, args: &Map<String, Value>) -> Option<ToolOutput> {
        let results = lock(&self.results);
        let cached = results.get(&key(tool, args))?;
        let expired = self.ttl.is_some_and(|ttl| cached.stored_at.elapsed() >= ttl);
        (!expired).then(|| cached.output.clone())
    }

    pub(super) fn put(&self, tool: &str, args: &Map<String, Value>, output: &ToolOutput) {
        if !matches!(output, ToolOutput::Value(_) | ToolOutput::WithArtifact { .. }) {
            return;
        }
        let key = key(tool, args);
        let mut results = lock(&self.results);
        if results.len() >= self.capacity && !results.contains_key(&key) {
            let oldest = results.iter().min_by_key(|it| it.1.stored_at).map(|it| it.0.clone());
            let Some(oldest) = oldest else { return };
            results.remove(&oldest);
        }
        results.insert(key, Cached { output: output.clone(), stored_at: Instant::now() });
    }
}

impl Default for ToolCache {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the key of a call. Keys of JSON objects are sorted, so equal arguments have equal keys.
fn key(tool: &str, args: &Map<String, Value>) -> String {
    let args = serde_json::to_string(args).unwrap_or_default();
    format!("{tool}\n{args}")
}
