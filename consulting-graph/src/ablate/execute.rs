//! Executes an ablation: runs all trials that are not complete yet, and writes the results.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, OnceLock},
    time::Duration,
};

use app_support::{files, lock::DirLock};
use futures_util::{StreamExt, stream};
use graph_core::{Checkpointer, CompiledGraph};
use graph_store::sqlite::{Sqlite, SqliteSaver};
use llm::{Llm, RecordMode, Recording};

use super::{
    analysis::{Ablation, Executed},
    arm::Arm,
    cases::Case,
    dir::{AblationDir, CALLS_FILE, THREADS_FILE, write_json},
    error::AblationError,
    graph::{TrialDeps, TrialState, graph},
    report, schedule,
    settings::AblationSettings,
    trial::{Trial, TrialResult},
};
use crate::{
    data::SeededRng,
    models::{CallLimits, Limit, Models},
    spending::SpendingMeter,
    transcript::ConversationEntry,
    unusable,
};

/// Options for executing an ablation. They do not change its result, apart from a spending limit that is too low.
#[derive(Debug, Clone)]
pub struct ExecuteOptions {
    /// Maximum number of concurrent trials.
    pub concurrency: usize,
    /// Spending limit of the whole ablation, if it should differ from the stored one.
    pub limit: Limit,
    /// Time limits and retries of calls.
    pub call_limits: CallLimits,
    /// Model that replaces all others. Used by tests.
    pub model_override: Option<Llm>,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            limit: Limit::default(),
            call_limits: CallLimits::default(),
            model_override: None,
        }
    }
}

/// Number of ended trials, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub ended: usize,
    pub failed: usize,
    pub total: usize,
}

/// A trial to run, with the transcript that its graph starts with.
struct Job {
    trial: Trial,
    log: Vec<ConversationEntry>,
}

/// Identifies the move and the repeat of a trial.
type Key = (String, u32);

/// Results of the debates of three rounds of the current batch, which other arms use.
type Debates = BTreeMap<Key, TrialState>;

/// Resources that all trials share.
struct Runner<'a> {
    graphs: BTreeMap<Arm, CompiledGraph<TrialState, Arc<TrialDeps>>>,
    deps: Arc<TrialDeps>,
    concurrency: usize,
    progress: Progress,
    on_progress: &'a mut (dyn FnMut(Progress) + Send),
    results: Vec<TrialResult>,
    failures: Vec<String>,
    debates: Debates,
}

impl AblationDir {
    /// Executes the ablation until all trials have ended, and writes the results. Completed trials are not repeated,
    /// and failed ones continue at the failed call. Stops early if the spending limit is reached. The pairs are judged
    /// in small batches, so that an ablation that stops early has complete pairs.
    pub async fn execute(
        &self,
        options: ExecuteOptions,
        on_progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Ablation, AblationError> {
        let _lock = DirLock::exclusive(&self.dir)?;
        let deps = Arc::new(self.open_deps(&options)?);
        let database = Sqlite::settings().compress().open(self.dir.join(THREADS_FILE))?;
        let saver: Arc<dyn Checkpointer> = Arc::new(SqliteSaver::new(&database));
        let mut graphs = BTreeMap::new();
        for arm in &self.settings.arms {
            graphs.insert(*arm, graph(*arm, saver.clone())?);
        }
        let total = self.cases.len() * self.settings.arms.len() * self.settings.repeats as usize;
        let mut runner = Runner {
            graphs,
            deps,
            concurrency: options.concurrency,
            progress: Progress { ended: 0, failed: 0, total },
            on_progress,
            results: Vec::new(),
            failures: Vec::new(),
            debates: BTreeMap::new(),
        };
        for batch in schedule::batches(self.settings.pairs) {
            let (first, second): (Vec<Trial>, Vec<Trial>) =
                self.trials(&batch).into_iter().partition(|it| !it.arm.needs_debate());
            let jobs = first.into_iter().map(|trial| Job { trial, log: Vec::new() }).collect();
            runner.run(jobs).await;
            let job = |it| self.dependent_job(it, &batch, &mut runner);
            let jobs = second.into_iter().filter_map(job).collect();
            runner.run(jobs).await;
            runner.debates.clear();
        }
        let executed = Executed {
            trials: runner.results,
            failures: runner.failures,
            stop_reason: runner.deps.fatal.get().map(|it| it.reason.clone()),
            spending: SpendingMeter::new(self.dir.join(CALLS_FILE)).read_all(),
        };
        let ablation = Ablation::new(&self.settings, &self.config, executed)?;
        write_json(&self.dir.join("ablation.json"), &ablation)?;
        files::write_synced(&self.dir.join("report.md"), &report::markdown(&ablation))?;
        files::write_synced(&self.dir.join("report.html"), &report::html(&ablation))?;
        Ok(ablation)
    }

    fn open_deps(&self, options: &ExecuteOptions) -> Result<TrialDeps, AblationError> {
        let limit = self.store_limit(options.limit)?;
        let recording = Recording::open(self.dir.join(CALLS_FILE), RecordMode::ReplayOrRecord)?;
        let recording = unusable::repeat_unusable(recording.compress(), &self.config);
        let choice = self.settings.choice.clone();
        let delay = Duration::from_millis(choice.answer_ms);
        let scripted = self.settings.critics.map(|it| it.model(choice.seed, delay));
        let model = options.model_override.as_ref().or(scripted.as_ref());
        let call_limits = &options.call_limits;
        let models = Models::new(&self.config, choice, model, limit, &recording, 0, call_limits)?;
        let (config, nonce) = (self.config.clone(), self.settings.nonce.clone());
        Ok(TrialDeps { config, models, nonce, fatal: OnceLock::new() })
    }

    /// Returns the trials of a batch, pair by pair.
    fn trials(&self, batch: &Range<usize>) -> Vec<Trial> {
        let mut trials = Vec::new();
        for pair in self.cases[2 * batch.start..2 * batch.end].chunks(2) {
            for repeat in 0..self.settings.repeats {
                for arm in &self.settings.arms {
                    let trial =
                        |it: &Case| Trial { arm: *arm, case: it.clone(), repeat, target_tokens: 0 };
                    trials.extend(pair.iter().map(trial));
                }
            }
        }
        trials
    }

    /// Completes a trial with the tokens or the transcript of a debate. Returns `None` if there is no such debate,
    /// because it failed or because the ablation stopped before it.
    fn dependent_job(
        &self,
        mut trial: Trial,
        batch: &Range<usize>,
        runner: &mut Runner<'_>,
    ) -> Option<Job> {
        let move_id = match trial.arm {
            Arm::Placebo => &self.placebo_source(trial.case.pair, batch).brief.move_id,
            _ => &trial.case.brief.move_id,
        };
        let Some(debate) = runner.debates.get(&(move_id.clone(), trial.repeat)) else {
            if runner.deps.fatal.get().is_none() {
                runner.fail(format!("{}: the debate about {move_id} failed", trial.name()));
            }
            return None;
        };
        if trial.arm == Arm::Placebo {
            return Some(Job { log: debate.log.clone(), trial });
        }
        trial.target_tokens = debate.calls.iter().map(|it| it.input + it.output).sum();
        Some(Job { trial, log: Vec::new() })
    }

    /// Returns the move whose debate serves as the placebo of a pair. The move belongs to another pair.
    fn placebo_source(&self, pair: usize, batch: &Range<usize>) -> &Case {
        let AblationSettings { ticker, choice, .. } = &self.settings;
        let mut rng = SeededRng::from_text(&format!("placebo {} {ticker} {pair}", choice.seed));
        &self.cases[schedule::placebo_source(pair, batch, &mut rng)]
    }
}

impl Runner<'_> {
    /// Runs trials concurrently. After a failure that all other calls would share, makes no further calls and only
    /// reads the results of trials that are already complete.
    async fn run(&mut self, jobs: Vec<Job>) {
        let (graphs, deps) = (self.graphs.clone(), self.deps.clone());
        let run = |job: Job| {
            let graph = graphs.get(&job.trial.arm).cloned();
            let deps = deps.clone();
            async move {
                let trial = job.trial.clone();
                let graph = graph.expect("every arm has a graph");
                (trial, run_trial(&graph, deps, job).await)
            }
        };
        let mut ended = stream::iter(jobs.into_iter().map(run)).buffer_unordered(self.concurrency);
        while let Some((trial, outcome)) = ended.next().await {
            match outcome {
                Ok(Some(state)) => self.complete(&trial, state),
                Ok(None) => {}
                Err(error) => self.fail(format!("{}: {error}", trial.name())),
            }
        }
    }

    fn complete(&mut self, trial: &Trial, state: TrialState) {
        let Some(verdict) = state.verdict else {
            return self.fail(format!("{}: the trial has no verdict", trial.name()));
        };
        self.results.push(TrialResult::new(trial, verdict, &state.calls));
        if trial.arm == Arm::Debate3 {
            self.debates.insert((trial.case.brief.move_id.clone(), trial.repeat), state);
        }
        self.progress.ended += 1;
        (self.on_progress)(self.progress);
    }

    fn fail(&mut self, failure: String) {
        self.failures.push(failure);
        self.progress.ended += 1;
        self.progress.failed += 1;
        (self.on_progress)(self.progress);
    }
}

/// Runs a trial to its end, from its last checkpoint. Returns `None` if the trial is not complete and no call can
/// succeed anymore.
async fn run_trial(
    graph: &CompiledGraph<TrialState, Arc<TrialDeps>>,
    deps: Arc<TrialDeps>,
    job: Job,
) -> Result<Option<TrialState>, graph_core::RunError> {
    let thread = graph.thread(job.trial.name(), deps.clone());
    if deps.fatal.get().is_some() {
        let head = thread.state().await?;
        return Ok(head.filter(|it| it.is_done()).map(|it| it.values));
    }
    let Job { trial, log } = job;
    let outcome = thread.start_or_continue(TrialState { trial, log, ..TrialState::default() });
    Ok(Some(outcome.await?.into_state()))
}
