//! State shared by the routes.

use std::{path::PathBuf, slice, sync::Arc};

use app_support::{
    lock::DirLock,
    run_id::{now, run_id},
    server::blocking,
};
use graph_server::{
    NewRun, Registry, RunInfo, Service,
    http::{Metrics, Problem, StreamLimit},
};
use llm::Catalog;
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
};

use super::{
    deletion, external_runs,
    options::ServeOptions,
    problem::http_problem,
    spending_meters::SpendingMeters,
    wire::{AnalyzeRequest, Budget, ForkRequest, StoredInput},
};
use crate::{
    config::Config,
    data::{DataSource, Ticker},
    models::ModelChoice,
    plan::{Assumptions, Plan},
    run::{Run, RunConfig, new_run},
    spending::Spending,
};

/// Maximum number of rounds that a client may request.
const MAX_ROUNDS: u32 = 50;
/// Maximum number of concurrent debates that a client may request.
const MAX_CONCURRENCY: usize = 15;

/// Maximum number of concurrent forks.
pub(super) const CONCURRENT_FORKS: usize = 4;

/// Maximum number of concurrent requests that hold a whole recording or trace in memory.
pub(super) const CONCURRENT_WHOLE_FILES: usize = 4;

/// Maximum number of settings that a fork may change.
const MAX_SETTINGS: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct AppState {
    pub(super) service: Service,
    pub(super) registry: Registry,
    pub(super) options: Arc<ServeOptions>,
    pub(super) streams: StreamLimit,
    pub(super) metrics: Metrics,
    /// Lock on the runs directory, held as long as the server runs.
    pub(super) _lock: Arc<DirLock>,
    pub(super) spending_meters: SpendingMeters,
    /// Held while a run is replayed for its trace. Only one replay runs at a time, because it takes seconds of CPU
    /// time.
    pub(super) replaying: Arc<Mutex<()>>,
    /// Limits concurrent forks. Each fork occupies a blocking thread while it waits for work on other blocking threads,
    /// so too many concurrent forks would deadlock.
    pub(super) forking: Arc<Semaphore>,
    /// Limits concurrent requests that hold a whole recording or trace in memory.
    pub(super) whole_files: Arc<Semaphore>,
}

impl AppState {
    /// Waits until the request may hold a whole recording or trace in memory.
    pub(super) async fn whole_file_permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = self.whole_files.clone().acquire_owned().await;
        permit.map_err(|error| Problem::internal(&error))
    }

    /// Creates and starts a run. Continues even if the client disconnects.
    pub(super) async fn start_run(&self, request: AnalyzeRequest) -> Result<RunInfo, Problem> {
        let app = self.clone();
        let started = tokio::spawn(async move { app.start_run_inner(request).await }).await;
        started.map_err(|error| Problem::internal(&error))?
    }

    async fn start_run_inner(&self, request: AnalyzeRequest) -> Result<RunInfo, Problem> {
        let ticker = Ticker::parse(&request.ticker);
        let ticker = ticker.map_err(|error| Problem::invalid(format!("`ticker`: {error}")))?;
        if request.ticker != request.ticker.trim() {
            return Err(Problem::invalid("`ticker`: remove the surrounding spaces"));
        }
        let limit = Budget { max_tokens: request.max_tokens, max_dollars: request.max_dollars };
        let stored_input = self.stored_input(request.concurrency, limit, None)?;
        let config_toml = self.config_with_rounds(request.rounds)?;
        let choice = ModelChoice {
            seed: request.seed.unwrap_or(self.options.choice.seed),
            ..self.options.choice.clone()
        };
        let config = Config::parse(&config_toml).map_err(|error| Problem::internal(&error))?;
        let choice = choice.with_context_sizes(&config).await;
        let run_id = run_id(&ticker.slug()).map_err(|error| Problem::internal(&error))?;
        let as_of = self.options.as_of.unwrap_or_else(|| now().date_naive());
        let run_config = RunConfig {
            run_id: run_id.clone(),
            ticker: ticker.to_string(),
            data: DataSource { origin: self.options.data.clone(), as_of },
            nonce: new_run::nonce(&choice).map_err(|error| Problem::internal(&error))?,
            choice,
            baseline: request.baseline,
            review: request.review,
            config_toml,
        };
        let dir = self.options.run_dir(&run_id);
        blocking(move || Run::create(dir, run_config).map_err(http_problem)).await?;
        self.register_and_start(run_id, ticker.to_string(), &stored_input).await
    }

    /// Deletes an inactive run and its directory.
    pub(super) async fn delete_run(&self, id: &str) -> Result<(), Problem> {
        let dir = self.options.run_dir(id);
        self.service.delete(id, move || deletion::delete_dir(&dir)).await?
    }

    /// Forks a run and starts the fork. Continues even if the client disconnects.
    pub(super) async fn fork_run(
        &self,
        id: &str,
        request: ForkRequest,
    ) -> Result<RunInfo, Problem> {
        let (app, id) = (self.clone(), id.to_owned());
        let started = tokio::spawn(async move { app.fork_run_inner(&id, request).await }).await;
        started.map_err(|error| Problem::internal(&error))?
    }

    async fn fork_run_inner(&self, id: &str, request: ForkRequest) -> Result<RunInfo, Problem> {
        if request.set.len() > MAX_SETTINGS {
            return Err(Problem::invalid(format!(
                "`set` may have at most {MAX_SETTINGS} settings"
            )));
        }
        let info = self.service.get(id).await?;
        if info.status.is_active() {
            return Err(Problem::conflict(
                "the run is active; wait for it to finish, or cancel it",
            ));
        }
        let at = request.at.parse().map_err(Problem::invalid)?;
        let limit = Budget { max_tokens: request.max_tokens, max_dollars: request.max_dollars };
        let stored_input = self.stored_input(request.concurrency, limit, Some(info.id.clone()))?;
        let ticker = Ticker::parse(&info.subject).map_err(|error| Problem::internal(&error))?;
        let run_id = run_id(&ticker.slug()).map_err(|error| Problem::internal(&error))?;
        let (from, dir) = (self.options.run_dir(id), self.options.run_dir(&run_id));
        let (new_id, runtime, max_limit) =
            (run_id.clone(), Handle::current(), self.options.max_limit);
        let permit = self.forking.clone().acquire_owned().await;
        let permit = permit.map_err(|error| Problem::internal(&error))?;
        // Forking copies databases and recordings, so it runs on a blocking thread.
        blocking(move || {
            let _permit = permit;
            let run = Run::open(from).map_err(http_problem)?;
            let fork = run.fork(dir, new_id, at, request.only, &request.set);
            let mut fork = runtime.block_on(fork).map_err(http_problem)?;
            // The limit in the request takes precedence over the limit of the run that is forked.
            let limit = limit.limit().or(fork.manifest().limit).capped_at(max_limit);
            fork.store_limit(limit).map_err(http_problem)
        })
        .await?;
        self.register_and_start(run_id, info.subject, &stored_input).await
    }

    async fn register_and_start(
        &self,
        id: String,
        subject: String,
        stored_input: &StoredInput,
    ) -> Result<RunInfo, Problem> {
        let dir = self.options.run_dir(&id);
        let started = self.service.start(NewRun { id, subject, input: json!(stored_input) }).await;
        if started.is_err() {
            // The run could not be started and no client knows its id, so its directory is not needed.
            let _ = std::fs::remove_dir_all(dir);
        }
        Ok(started?)
    }

    fn stored_input(
        &self,
        concurrency: Option<usize>,
        limit: Budget,
        from: Option<String>,
    ) -> Result<StoredInput, Problem> {
        let concurrency = self.concurrency_or_default(concurrency)?;
        let limit = self.bounded_budget(limit)?;
        Ok(StoredInput { concurrency, limit, from })
    }

    /// Returns the requested number of concurrent debates, or the default.
    pub(super) fn concurrency_or_default(&self, request: Option<usize>) -> Result<usize, Problem> {
        let invalid =
            || Problem::invalid(format!("`concurrency` must be between 1 and {MAX_CONCURRENCY}"));
        let concurrency = request.unwrap_or(self.options.concurrency);
        (1..=MAX_CONCURRENCY).contains(&concurrency).then_some(concurrency).ok_or_else(invalid)
    }

    /// Returns the requested spending limit, with missing parts taken from the server's limit. Fails if the request is
    /// invalid or exceeds the server's limit.
    pub(super) fn bounded_budget(&self, limit: Budget) -> Result<Budget, Problem> {
        if let Some(problem) = limit.problem() {
            return Err(Problem::invalid(problem));
        }
        limit.bounded_by(self.options.max_limit).map_err(Problem::invalid)
    }

    /// Returns the configuration text of a new run, with the requested number of rounds.
    pub(super) fn config_with_rounds(&self, rounds: Option<u32>) -> Result<String, Problem> {
        match rounds {
            None => Ok(self.options.config.clone()),
            Some(rounds @ 1..=MAX_ROUNDS) => Ok(new_run::with_rounds(&self.options.config, rounds)),
            Some(_) => {
                Err(Problem::invalid(format!("`rounds` must be between 1 and {MAX_ROUNDS}")))
            }
        }
    }

    /// Estimates the cost of a run.
    pub(super) fn plan(&self, config: &Config, baseline: bool, concurrency: usize) -> Plan {
        let assumed = Assumptions { concurrency, baseline, ..Assumptions::default() };
        Plan::new(config, &self.options.choice, Catalog::builtin(), assumed)
    }

    /// Returns the spending of a run so far. A fork does not pay for the calls that it inherited.
    pub(super) async fn spending(
        &self,
        id: &str,
        inherited_calls: usize,
    ) -> Result<Spending, Problem> {
        let (spending_meters, recording) =
            (self.spending_meters.clone(), self.options.run_dir(id).join("calls.jsonl"));
        blocking(move || Ok(spending_meters.read(&recording, inherited_calls))).await
    }

    pub(super) async fn find_run(&self, id: &str) -> Result<(RunInfo, PathBuf), Problem> {
        let mut info = self.service.get(id).await?;
        if self.import_external_results(slice::from_ref(&info)).await? {
            info = self.service.get(id).await?;
        }
        let dir = self.options.run_dir(&info.id);
        Ok((info, dir))
    }

    /// Lists runs, newest first.
    pub(super) async fn list_runs(
        &self,
        before: Option<String>,
        limit: usize,
    ) -> Result<Vec<RunInfo>, Problem> {
        let found = self.service.list(before.clone(), limit).await?;
        if self.import_external_results(&found).await? {
            return Ok(self.service.list(before, limit).await?);
        }
        Ok(found)
    }

    /// Imports results that were produced outside of the server. Returns whether there were any.
    async fn import_external_results(&self, known: &[RunInfo]) -> Result<bool, Problem> {
        let (app, known) = (self.clone(), known.to_vec());
        blocking(move || {
            let mut any_imported = false;
            for it in known {
                let dir = app.options.run_dir(&it.id);
                let imported = external_runs::import_external_run(
                    &app.registry,
                    &dir,
                    it.id.clone(),
                    Some(&it),
                );
                any_imported |= imported.map_err(|error| Problem::internal(&error))?;
            }
            Ok(any_imported)
        })
        .await
    }
}
