//! What the routes share: the service, the folder of runs, and what new runs are given.

use std::{fs::File, path::PathBuf, slice, sync::Arc};

use chrono::NaiveDate;
use graph_core::{RunError, checkpoint::CheckpointError};
use graph_server::{
    NewRun, Registry, RunInfo, Service,
    http::{EventStreams, Guard, Metrics, Problem},
};
use llm::Catalog;
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::{Mutex, Semaphore},
    task::spawn_blocking,
};

use super::{
    adopt,
    meters::Meters,
    runner::Folders,
    wire::{Analyze, Budget, ForkWanted, Kept},
};
use crate::{
    config::Config,
    data::{DataSource, From, Ticker},
    models::Choice,
    plan::{Assumptions, Plan},
    run::{Given, Run, RunProblem, new},
    spent::Spent,
};

/// Rounds a client may ask for, and debates at once.
const MOST_ROUNDS: u32 = 50;
const MOST_AT_ONCE: usize = 15;

/// So many runs are branched off from at once.
pub(super) const FORKS: usize = 4;

/// Why a run does not go on that this program cannot have made.
const OTHER_PROGRAM: &str =
    "the run was made by another program or with other files, and cannot go on here";

/// Settings a fork may change.
const MOST_SETTINGS: usize = 100;

/// What the routes share.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) service: Service,
    pub(super) registry: Registry,
    pub(super) folders: Folders,
    pub(super) streams: EventStreams,
    pub(super) metrics: Metrics,
    /// The configuration of new runs, as it stands in its file.
    pub(super) config: Arc<str>,
    /// Who speaks in new runs.
    pub(super) choice: Choice,
    /// Where companies are read from.
    pub(super) data: From,
    pub(super) as_of: Option<NaiveDate>,
    /// Debates at once, where a client says nothing.
    pub(super) concurrency: usize,
    /// Who may see what is locked.
    pub(super) guard: Arc<Guard>,
    /// Held for as long as the server is there.
    pub(super) _lock: Arc<File>,
    pub(super) meters: Meters,
    /// Held by who replays a run for its trace: one at a time, since that takes seconds of a processor.
    pub(super) replaying: Arc<Mutex<()>>,
    /// Held by who branches off: a thread waits for each that needs other threads, so there must not be many.
    pub(super) forking: Arc<Semaphore>,
}

impl Desk {
    /// Makes the run that a client asks for, and starts it, though the client goes away.
    pub(super) async fn begin(&self, wanted: Analyze) -> Result<RunInfo, Problem> {
        let desk = self.clone();
        let begun = tokio::spawn(async move { desk.begin_now(wanted).await }).await;
        begun.map_err(|error| Problem::internal(&error))?
    }

    async fn begin_now(&self, wanted: Analyze) -> Result<RunInfo, Problem> {
        let ticker = Ticker::parse(&wanted.ticker);
        let ticker = ticker.map_err(|error| Problem::invalid(format!("`ticker`: {error}")))?;
        if wanted.ticker != wanted.ticker.trim() {
            return Err(Problem::invalid("`ticker`: leave out the blanks around it"));
        }
        let limit = Budget { max_tokens: wanted.max_tokens, max_dollars: wanted.max_dollars };
        let kept = self.kept(wanted.concurrency, limit, None)?;
        let config = self.config_with(wanted.rounds)?;
        let choice =
            Choice { seed: wanted.seed.unwrap_or(self.choice.seed), ..self.choice.clone() };
        let run_id = new::run_id(&ticker).map_err(|error| Problem::internal(&error))?;
        let as_of = self.as_of.unwrap_or_else(|| new::now().date_naive());
        let given = Given {
            run_id: run_id.clone(),
            ticker: ticker.to_string(),
            data: DataSource { from: self.data.clone(), as_of },
            nonce: new::nonce(&choice).map_err(|error| Problem::internal(&error))?,
            choice,
            baseline: wanted.baseline,
            review: wanted.review,
            config,
        };
        let folder = self.folders.of(&run_id);
        blocking(move || Run::create(folder, given).map_err(problem)).await?;
        self.start(run_id, ticker.to_string(), &kept).await
    }

    /// Makes a run that branches off from another one, and starts it, though the client goes away.
    pub(super) async fn branch(&self, id: &str, wanted: ForkWanted) -> Result<RunInfo, Problem> {
        let (desk, id) = (self.clone(), id.to_owned());
        let begun = tokio::spawn(async move { desk.branch_now(&id, wanted).await }).await;
        begun.map_err(|error| Problem::internal(&error))?
    }

    async fn branch_now(&self, id: &str, wanted: ForkWanted) -> Result<RunInfo, Problem> {
        if wanted.set.len() > MOST_SETTINGS {
            return Err(Problem::invalid(format!("`set` has up to {MOST_SETTINGS} settings")));
        }
        let info = self.service.get(id).await?;
        if info.status.is_live() {
            return Err(Problem::conflict("the run goes on; wait until it rests, or cancel it"));
        }
        let at = wanted.at.parse().map_err(Problem::invalid)?;
        let limit = Budget { max_tokens: wanted.max_tokens, max_dollars: wanted.max_dollars };
        let kept = self.kept(wanted.concurrency, limit, Some(info.id.clone()))?;
        let ticker = Ticker::parse(&info.subject).map_err(|error| Problem::internal(&error))?;
        let run_id = new::run_id(&ticker).map_err(|error| Problem::internal(&error))?;
        let (from, folder) = (self.folders.of(id), self.folders.of(&run_id));
        let (new_id, runtime, most) = (run_id.clone(), Handle::current(), self.folders.most);
        let turn = self.forking.clone().acquire_owned().await;
        let turn = turn.map_err(|error| Problem::internal(&error))?;
        // Databases and recordings are copied.
        blocking(move || {
            let _turn = turn;
            let run = Run::open(from).map_err(problem)?;
            let fork = run.fork(folder, new_id, at, wanted.only, &wanted.set);
            let mut fork = runtime.block_on(fork).map_err(problem)?;
            // What is said of the fork goes before what was said of the run it comes from.
            let limit = limit.limit().or(fork.manifest().limit).at_most(most);
            fork.limit_to(limit).map_err(problem)
        })
        .await?;
        self.start(run_id, info.subject, &kept).await
    }

    async fn start(&self, id: String, subject: String, kept: &Kept) -> Result<RunInfo, Problem> {
        let folder = self.folders.of(&id);
        let started = self.service.start(NewRun { id, subject, input: json!(kept) }).await;
        if started.is_err() {
            // Nobody has seen it.
            let _ = std::fs::remove_dir_all(folder);
        }
        Ok(started?)
    }

    fn kept(
        &self,
        concurrency: Option<usize>,
        limit: Budget,
        from: Option<String>,
    ) -> Result<Kept, Problem> {
        let concurrency = self.at_once(concurrency)?;
        let limit = self.allowed(limit)?;
        Ok(Kept { concurrency, limit, from })
    }

    /// Debates at once.
    pub(super) fn at_once(&self, wanted: Option<usize>) -> Result<usize, Problem> {
        let wrong = || Problem::invalid(format!("concurrency is from 1 to {MOST_AT_ONCE}"));
        let at_once = wanted.unwrap_or(self.concurrency);
        (1..=MOST_AT_ONCE).contains(&at_once).then_some(at_once).ok_or_else(wrong)
    }

    /// What a run may spend: what a client says, and no more than the server's operator allows.
    pub(super) fn allowed(&self, limit: Budget) -> Result<Budget, Problem> {
        if let Some(problem) = limit.problem() {
            return Err(Problem::invalid(problem));
        }
        limit.within(self.folders.most).map_err(Problem::invalid)
    }

    /// The configuration of a new run.
    pub(super) fn config_with(&self, rounds: Option<u32>) -> Result<String, Problem> {
        match rounds {
            None => Ok(self.config.to_string()),
            Some(rounds @ 1..=MOST_ROUNDS) => Ok(new::with_rounds(&self.config, rounds)),
            Some(_) => Err(Problem::invalid(format!("rounds are from 1 to {MOST_ROUNDS}"))),
        }
    }

    /// What a run of a configuration takes.
    pub(super) fn plan(&self, config: &Config, baseline: bool, concurrency: usize) -> Plan {
        let assumed = Assumptions { concurrency, baseline, ..Assumptions::default() };
        Plan::new(config, &self.choice, Catalog::builtin(), assumed)
    }

    /// What a run has spent so far.
    pub(super) async fn spent(&self, id: &str) -> Result<Spent, Problem> {
        let (meters, recording) = (self.meters.clone(), self.folders.of(id).join("calls.jsonl"));
        blocking(move || Ok(meters.read(&recording))).await
    }

    /// A run and its folder, if there is such a run.
    pub(super) async fn folder(&self, id: &str) -> Result<(RunInfo, PathBuf), Problem> {
        let mut info = self.service.get(id).await?;
        if self.notices(slice::from_ref(&info)).await? {
            info = self.service.get(id).await?;
        }
        let folder = self.folders.of(&info.id);
        Ok((info, folder))
    }

    /// Runs, the newest first.
    pub(super) async fn runs(
        &self,
        before: Option<String>,
        most: usize,
    ) -> Result<Vec<RunInfo>, Problem> {
        let found = self.service.list(before.clone(), most).await?;
        if self.notices(&found).await? {
            return Ok(self.service.list(before, most).await?);
        }
        Ok(found)
    }

    /// Notes what somebody at a terminal did to runs meanwhile. Says whether anybody did.
    async fn notices(&self, known: &[RunInfo]) -> Result<bool, Problem> {
        let (desk, known) = (self.clone(), known.to_vec());
        blocking(move || {
            let mut is_any = false;
            for it in known {
                let folder = desk.folders.of(&it.id);
                let noted = adopt::one(&desk.registry, &folder, it.id.clone(), Some(&it));
                is_any |= noted.map_err(|error| Problem::internal(&error))?;
            }
            Ok(is_any)
        })
        .await
    }
}

/// Does what may wait for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    spawn_blocking(work).await.map_err(|error| Problem::internal(&error))?
}

/// What a client is told of a run that cannot be made or opened. What only names the host's files stays in the log.
pub(super) fn problem(problem: RunProblem) -> Problem {
    match problem {
        RunProblem::Config(_) | RunProblem::NoPlace(_) | RunProblem::NothingToReview => {
            Problem::invalid(problem.to_string())
        }
        RunProblem::Setting { setting, problem } => {
            Problem::invalid(format!("`set` {setting}: {problem}"))
        }
        RunProblem::NoRun(_) => Problem::not_found("the run's folder is gone"),
        RunProblem::Busy(_) => Problem::conflict("another process is at work on the run"),
        RunProblem::Differs(_) => Problem::conflict(OTHER_PROGRAM),
        other => Problem::internal(&other),
    }
}

/// Why a run failed, for its clients; the run is there if it could be opened. What only names the host's files stays in
/// the log.
pub(super) fn failure(id: &str, run: Option<&Run>, problem: &RunProblem) -> String {
    tracing::error!(run = id, %problem, "failed");
    match (problem, run) {
        (RunProblem::Run(error), Some(run)) if !is_storage(error) => run.shown(error),
        (RunProblem::Differs(_), _) => OTHER_PROGRAM.to_owned(),
        (
            RunProblem::NothingToReview
            | RunProblem::NotRecorded(_)
            | RunProblem::NoBackend(..)
            | RunProblem::NoPlace(_),
            _,
        ) => problem.to_string(),
        _ => "the server failed at this run; its log says why, and resuming tries again".to_owned(),
    }
}

fn is_storage(error: &RunError) -> bool {
    matches!(error, RunError::Checkpoint(CheckpointError::Storage(_)))
}
