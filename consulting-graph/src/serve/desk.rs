//! What the routes share: the service, the folder of runs, and what new runs are given.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use chrono::NaiveDate;
use graph_server::{
    NewRun, RunInfo, Service,
    http::{EventStreams, Metrics, Problem},
};
use llm::Catalog;
use serde_json::json;
use tokio::task::spawn_blocking;

use super::{
    runner::Folders,
    wire::{Analyze, Budget, ForkWanted, Kept},
};
use crate::{
    config::Config,
    data::{DataSource, From, Ticker},
    models::Choice,
    plan::{Assumptions, Plan},
    run::{Given, Run, RunProblem, new},
    spent::{Meter, Spent},
};

/// Rounds a client may ask for, and debates at once.
const MOST_ROUNDS: u32 = 50;
const MOST_AT_ONCE: usize = 15;

/// So many recordings are remembered as far as they are counted.
const METERS: usize = 64;

/// What the routes share.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) service: Service,
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
    pub(super) needs_key: bool,
    pub(super) meters: Arc<Mutex<HashMap<String, Meter>>>,
    /// Held by who replays a run for its trace: one at a time, since that takes seconds of a processor.
    pub(super) replaying: Arc<tokio::sync::Mutex<()>>,
}

impl Desk {
    /// Makes the run that a client asks for, and starts it.
    pub(super) async fn begin(&self, wanted: Analyze) -> Result<RunInfo, Problem> {
        let ticker =
            Ticker::parse(&wanted.ticker).map_err(|error| Problem::invalid(error.to_string()))?;
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

    /// Makes a run that branches off from another one, and starts it.
    pub(super) async fn branch(&self, id: &str, wanted: ForkWanted) -> Result<RunInfo, Problem> {
        let info = self.service.get(id).await?;
        if info.status.is_live() {
            return Err(Problem::conflict("the run goes on; wait until it rests, or cancel it"));
        }
        let at = wanted.at.parse().map_err(Problem::invalid)?;
        let limit = Budget { max_tokens: wanted.max_tokens, max_dollars: wanted.max_dollars };
        let kept = self.kept(wanted.concurrency, limit, Some(info.id.clone()))?;
        let ticker = Ticker::parse(&info.subject).map_err(|error| Problem::internal(&error))?;
        let run_id = new::run_id(&ticker).map_err(|error| Problem::internal(&error))?;
        let run = Run::open(self.folders.of(id)).map_err(problem)?;
        let folder = self.folders.of(&run_id);
        run.fork(folder, run_id.clone(), at, wanted.only, &wanted.set).await.map_err(problem)?;
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
        let concurrency = concurrency.unwrap_or(self.concurrency);
        if !(1..=MOST_AT_ONCE).contains(&concurrency) {
            return Err(Problem::invalid(format!("concurrency is from 1 to {MOST_AT_ONCE}")));
        }
        match limit.problem() {
            Some(problem) => Err(Problem::invalid(problem)),
            None => Ok(Kept { concurrency, limit, from }),
        }
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
        let (meters, id) = (self.meters.clone(), id.to_owned());
        let path = self.folders.of(&id).join("calls.jsonl");
        blocking(move || {
            let mut meters = meters.lock().unwrap_or_else(PoisonError::into_inner);
            if meters.len() >= METERS && !meters.contains_key(&id) {
                // They are read again from the start, which takes longer and comes to the same.
                meters.clear();
            }
            Ok(meters.entry(id).or_insert_with(|| Meter::of(path)).read_all())
        })
        .await
    }

    /// A run's folder, if there is such a run.
    pub(super) async fn folder(&self, id: &str) -> Result<(RunInfo, PathBuf), Problem> {
        let info = self.service.get(id).await?;
        let folder = self.folders.of(&info.id);
        Ok((info, folder))
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
        RunProblem::Config(_)
        | RunProblem::NoPlace(_)
        | RunProblem::NothingToReview
        | RunProblem::Setting { .. } => Problem::invalid(problem.to_string()),
        RunProblem::Busy(_) => Problem::conflict("another process is at work on the run"),
        RunProblem::Differs(_) => Problem::conflict(
            "the run was made by another program or with other files, and cannot go on here",
        ),
        other => Problem::internal(&other),
    }
}
