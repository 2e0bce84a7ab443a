//! A worker of a cluster, which executes pipelines and debates.
//!
//! The configuration of a run arrives with the run. The worker supplies the models, with the API keys of its own
//! environment, and the sandboxes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use graph_cluster::{RegisteredGraph, RunStore, Worker};
use graph_core::{Durability, NodeError, RunOptions};
use graph_store::PostgresSaver;
use llm::{RecordMode, Recording};
use sandbox_vm::{Isolation, Sandboxes};
use serde_json::Value;

use crate::{
    cluster_servers::ClusterServers,
    config::Config,
    debate_host::{DebateHost, DebateQueue, MonitoredSaver, SandboxReuse, SandboxSupply},
    fence::Fence,
    models::{CallLimits, Limit, ModelChoice, Models, SharedBudget},
    pipeline::{self, Deps},
    run::{RunConfig, RunError, fallback_sandboxes, open_sandboxes},
};

/// Minimum number of tasks in a step for which the tasks are spread over the workers.
const MIN_SPREAD_TASKS: usize = 2;

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub servers: ClusterServers,
    /// Id of the worker, which must be unique in the cluster. `None` selects the host name and the process id.
    pub id: Option<String>,
    /// Maximum number of debates and agents that the worker executes concurrently.
    pub concurrency: usize,
    /// Time after which other workers take over if this worker does not report.
    pub lease: Duration,
    /// Weakest isolation that the debates may have. `None` accepts every level and uses the strongest available one.
    pub isolation: Option<Isolation>,
    /// Name of the sandbox back end to use. `None` selects the strongest available one.
    pub backend: Option<String>,
    /// Time limits and retries of calls.
    pub call_limits: CallLimits,
}

/// Executes runs and debates of a cluster until `shutdown` completes, and then drains.
pub async fn work(
    options: WorkerOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let isolation = options.isolation.unwrap_or(Isolation::Preferred);
    let saver = Arc::new(PostgresSaver::connect(&options.servers.database).await?);
    let store = RunStore::connect(&options.servers.database).await?;
    let resources = Arc::new(WorkerResources {
        saver: saver.clone(),
        store: store.clone(),
        isolation,
        sandboxes: open_sandboxes(isolation, options.backend.as_deref()).await?,
        fallback: fallback_sandboxes(isolation).await?,
        models: SharedModels::new(options.call_limits),
    });
    let graph = pipeline::graph(saver)?.with(RunOptions::new().durability(Durability::Sync));
    // The fingerprint of the graph covers its nodes and edges; the version covers the prompts.
    let version = format!("{}-{}", env!("CARGO_PKG_VERSION"), graph.fingerprint());
    let deps = move |context| {
        let resources = resources.clone();
        async move { resources.deps(context).await }
    };
    let graph = RegisteredGraph::with_context(pipeline::GRAPH, graph, deps).version(version);
    let mut worker = Worker::new(store)
        .register(graph)
        .fan_out(MIN_SPREAD_TASKS)
        .task_capacity(options.concurrency)
        .lease(options.lease);
    if let Some(id) = options.id {
        worker = worker.id(id);
    }
    Ok(options.servers.serve(worker, shutdown).await?)
}

/// Resources that all runs on a worker share.
struct WorkerResources {
    saver: Arc<PostgresSaver>,
    store: RunStore,
    isolation: Isolation,
    sandboxes: Sandboxes,
    fallback: Option<Sandboxes>,
    models: SharedModels,
}

impl WorkerResources {
    /// Creates the dependencies of a leg or a task from the configuration of its run.
    async fn deps(&self, run_config: Value) -> Result<Deps, NodeError> {
        let run_config: RunConfig =
            serde_json::from_value(run_config).map_err(NodeError::terminal)?;
        let config = Config::parse(&run_config.config_toml).map_err(NodeError::terminal)?;
        let models = self.models.get(&config, &run_config.config_toml, run_config.choice)?;
        let makers = config.decision_makers.len();
        let budget = SharedBudget::open(&self.store, &run_config.run_id, makers).await;
        let models = match budget.map_err(NodeError::terminal)? {
            Some(budget) => Arc::new(models.with_shared_budget(budget)),
            None => models,
        };
        let fence = Fence::new(&run_config.nonce);
        let saver = Arc::new(MonitoredSaver::new(self.saver.clone()));
        // The client writes the result files; those of the worker are deleted with the dependencies.
        let scratch = Arc::new(tempfile::tempdir().map_err(NodeError::terminal)?);
        let debates = Arc::new(DebateHost {
            config: config.clone(),
            fence: fence.clone(),
            models: models.clone(),
            sandboxes: self.sandboxes.clone(),
            supply: SandboxSupply::new(SandboxReuse::None),
            isolation: self.isolation,
            fallback: self.fallback.clone(),
            saver: saver.clone(),
            // The capacity of the workers limits the number of concurrent debates.
            queue: DebateQueue::new(usize::MAX),
            run_id: run_config.run_id,
            baseline: run_config.baseline,
            log_dir: scratch.path().join("logs"),
            is_traced: false,
            recorded_isolation: Vec::new(),
        });
        Ok(Deps {
            config,
            data: run_config.data,
            fence,
            models,
            debates,
            debate_saver: Some(saver),
            review: run_config.review,
            dir: scratch.path().to_owned(),
            scratch: Some(scratch),
        })
    }
}

/// Number of configurations whose models are kept.
const MAX_MODELS: usize = 16;

/// Models of the latest runs. Legs and tasks of runs with the same configuration share them, and with them the limit on
/// concurrent calls to a provider.
struct SharedModels {
    call_limits: CallLimits,
    /// Sorted from least to most recently used. A std mutex suffices, because it is never held across an await.
    latest: Mutex<VecDeque<SharedEntry>>,
}

/// Text of the configuration, and the choice of models.
type ModelsKey = (String, ModelChoice);

struct SharedEntry {
    key: ModelsKey,
    models: Weak<Models>,
    /// Keeps the models between legs. `None` for local models, whose weights fill the memory.
    _kept: Option<Arc<Models>>,
}

impl SharedModels {
    fn new(call_limits: CallLimits) -> Self {
        Self { call_limits, latest: Mutex::default() }
    }

    /// Returns the models of a run, and creates them if no recent run had the same ones.
    fn get(
        &self,
        config: &Config,
        config_toml: &str,
        choice: ModelChoice,
    ) -> Result<Arc<Models>, NodeError> {
        let key = (config_toml.to_owned(), choice.clone());
        if let Some(models) = find(&mut self.lock(), &key) {
            return Ok(models);
        }
        let is_kept = !choice.has_local_model(config);
        // The answers are stored in the threads, so no other recording is needed.
        let recording = Recording::open("", RecordMode::Live).map_err(NodeError::terminal)?;
        // The models are built without the lock, because a local model takes long to load.
        let models =
            Models::new(config, choice, None, Limit::default(), &recording, 0, &self.call_limits);
        Ok(self.insert(key, Arc::new(models.map_err(NodeError::terminal)?), is_kept))
    }

    /// Inserts the models, unless another leg has inserted its own in the meantime. Returns the shared ones.
    fn insert(&self, key: ModelsKey, models: Arc<Models>, is_kept: bool) -> Arc<Models> {
        let mut latest = self.lock();
        if let Some(earlier) = find(&mut latest, &key) {
            return earlier;
        }
        let kept = is_kept.then(|| models.clone());
        latest.push_back(SharedEntry { key, models: Arc::downgrade(&models), _kept: kept });
        if latest.len() > MAX_MODELS {
            latest.pop_front();
        }
        models
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SharedEntry>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the models with this key and moves them to the back. Removes entries whose models were dropped.
fn find(latest: &mut VecDeque<SharedEntry>, key: &ModelsKey) -> Option<Arc<Models>> {
    latest.retain(|it| it.models.strong_count() > 0);
    let position = latest.iter().position(|it| it.key == *key)?;
    let entry = latest.remove(position)?;
    let models = entry.models.upgrade()?;
    latest.push_back(entry);
    Some(models)
}

#[cfg(test)]
mod tests {
    use llm::Scripted;

    use super::*;
    use crate::config;

    #[test]
    fn runs_with_the_same_configuration_share_their_models() {
        let shared = SharedModels::new(CallLimits::default());
        let config = Config::parse(config::DEFAULT).unwrap();
        let models = |seed| {
            let choice = ModelChoice { seed, ..ModelChoice::for_provider(Scripted::PROVIDER) };
            shared.get(&config, config::DEFAULT, choice).unwrap()
        };
        let first = models(1);
        assert!(Arc::ptr_eq(&first, &models(1)));
        assert!(!Arc::ptr_eq(&first, &models(2)));
        // The least recently used models are dropped.
        let second = models(2);
        models(1);
        (3..=1 + MAX_MODELS as u64).for_each(|it| drop(models(it)));
        assert!(Arc::ptr_eq(&first, &models(1)));
        assert!(!Arc::ptr_eq(&second, &models(2)));
    }

    #[test]
    fn local_models_are_shared_only_while_they_are_in_use() {
        let shared = SharedModels::new(CallLimits::default());
        let config = Config::parse(config::DEFAULT).unwrap();
        let choice = ModelChoice::for_provider(Scripted::PROVIDER);
        let build = || SharedModels::new(CallLimits::default()).get(&config, "", choice.clone());
        let key = ("local".to_owned(), choice.clone());
        let first = shared.insert(key.clone(), build().unwrap(), false);
        // Another leg built its own models concurrently; `insert` discards them and returns the shared ones.
        assert!(Arc::ptr_eq(&first, &shared.insert(key.clone(), build().unwrap(), false)));
        assert!(find(&mut shared.lock(), &key).is_some());
        drop(first);
        assert!(find(&mut shared.lock(), &key).is_none());
        let local =
            ModelChoice { model: Some("m.gguf".to_owned()), ..ModelChoice::for_provider("local") };
        assert!(local.has_local_model(&config) && !choice.has_local_model(&config));
    }
}
