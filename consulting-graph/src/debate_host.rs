//! Host side of the debates. Each debate runs in its own sandbox, as a subgraph of the pipeline. The host makes the
//! model calls of the debate and stores its checkpoints.

mod backends;
mod call_policy;
mod degradation;
mod event_quota;
mod isolation;
mod monitored_saver;
mod queue;
mod request;
mod result;
mod sandbox_creation;
mod sandbox_supply;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{Context, Event, EventKind, NodeError, Persistence};
use sandbox_vm::{Sandbox, SandboxOptions, Sandboxes, Spec, report::IsolationLevel, sandboxed};

use crate::{
    config::{Config, Group, Persona, Summaries},
    debate::{self, Participant, SandboxState, Terms},
    event::PipelineEvent,
    fence::Fence,
    models::{ModelChoice, Models},
    moves::{Move, MoveId},
    prompt::Brief,
    report::Isolation,
    score::{MakerScore, Mark},
};

pub use backends::{BACKENDS, open_sandboxes};
use event_quota::EventQuota;
pub use isolation::IsolationRecord;
use isolation::isolation_of;
pub use monitored_saver::MonitoredSaver;
pub use queue::DebateQueue;
pub(crate) use request::DebateRequest;
pub(crate) use result::DebateResult;
use result::is_allowed_from_guest;
use sandbox_supply::ReservedSandbox;
pub use sandbox_supply::{SandboxReuse, SandboxSupply};

/// Maximum number of guests started per debate: the first one and its replacements after crashes.
const MAX_GUESTS: u32 = 3;

/// Memory limit for the sandbox of one debate, in bytes.
const SANDBOX_MEMORY: u64 = 2048 << 20;

/// Runs debates in sandboxes.
#[derive(Debug)]
pub struct DebateHost {
    /// Agents, metrics and debate settings.
    pub config: Config,
    /// Delimiters around untrusted text in prompts.
    pub fence: Fence,
    /// Models that answer the calls of the debates.
    pub models: Arc<Models>,
    pub sandboxes: Sandboxes,
    /// How the debates share sandboxes.
    pub supply: SandboxSupply,
    /// Isolation requirement, which also applies to the back ends that are tried if a sandbox cannot be created.
    pub isolation: sandbox_vm::Isolation,
    /// In-process sandboxes for debates whose sandbox cannot be created. `None` if isolation is required or already
    /// off.
    pub fallback: Option<Sandboxes>,
    /// Checkpointer of the pipeline, which also stores the checkpoints of the debates. If it fails, the run fails, not
    /// only a debate.
    pub saver: Arc<MonitoredSaver>,
    /// Order in which the debates run.
    pub queue: DebateQueue,
    /// Id of the run. It is part of the name of each sandbox.
    pub run_id: String,
    /// Whether moves are also scored before the debates.
    pub baseline: bool,
    /// Directory to which the transcripts and scores are copied from the sandboxes.
    pub log_dir: PathBuf,
    /// Whether the debates are part of the trace of the run.
    pub is_traced: bool,
    /// In a replay, the isolation of the debates in the original run, which the report shows instead of the isolation
    /// in the replay. Otherwise empty.
    pub recorded_isolation: Vec<IsolationRecord>,
}

impl DebateHost {
    /// Returns how the debates were isolated: all back ends that they used, and the weakest isolation of a debate. If
    /// there are no records, returns the isolation of the current back end.
    pub(crate) fn combined_isolation(&self, records: &[IsolationRecord]) -> Isolation {
        let combined = Isolation::combine(records.iter().map(|it| &it.isolation));
        combined.unwrap_or_else(|| isolation_of(&self.sandboxes))
    }

    /// Returns an event that says why debates do not run in virtual machines, and whether their memory is unbounded.
    /// Returns `None` if they run in virtual machines.
    pub(crate) fn degraded_event(&self) -> Option<PipelineEvent> {
        degradation::degraded_event(&self.sandboxes)
    }

    /// Sets the moves to debate. They share what is left of the budget.
    pub(crate) async fn set_unfinished(&self, moves: Vec<MoveId>) {
        self.models.share_budget(&moves).await;
        self.queue.set_unfinished(moves);
    }

    /// Runs a debate to its end. An interrupted debate resumes from its last checkpoint.
    pub(crate) async fn run_debate<C: Send + Sync + 'static>(
        &self,
        debate: &DebateRequest,
        cx: &Context<C>,
    ) -> Result<DebateResult, NodeError> {
        let move_id = debate.the_move.move_id;
        let (earlier, finished) = self.earlier(debate);
        let mut result = match finished {
            Some(result) => {
                drop(self.models.reserve_scoring(move_id));
                result
            }
            None => self.run_in_sandbox(debate, earlier, cx).await?,
        };
        #[cfg(feature = "cluster")]
        self.models.end_debate(move_id).await;
        if let Some(record) = self.recorded_isolation.iter().find(|it| it.move_id == move_id) {
            result.isolation = record.isolation.clone();
        }
        if result.isolation.level == IsolationLevel::Off {
            result.marks.insert(Mark::NotIsolated);
        }
        let move_id = move_id.to_string();
        result.status_updates.push(match result.problem.clone() {
            Some(reason) => PipelineEvent::SandboxSkipped { move_id, reason },
            None => PipelineEvent::SandboxScored {
                move_id,
                score: result.scores.values().map(MakerScore::total).sum(),
                breakdown: result.scores.clone(),
            },
        });
        result.status_updates.extend(self.budget_event(&result));
        Ok(result)
    }

    /// Returns the state from which the debate continues, and its result if an earlier execution has finished it.
    ///
    /// Discards a state that is not valid, so that the debate starts again: the guest that stored it is not trusted,
    /// and a fork may have changed the number of rounds.
    fn earlier<'a>(
        &self,
        debate: &'a DebateRequest,
    ) -> (Option<&'a SandboxState>, Option<DebateResult>) {
        let Some(state) = &debate.earlier else { return (None, None) };
        let (move_id, config) = (debate.the_move.move_id, &self.config);
        let is_finished = !state.scores.is_empty();
        match DebateResult::from_state(state.clone(), config, move_id) {
            Ok(result) if is_finished && result.problem.is_none() => {
                (Some(state), Some(self.finished(debate, result)))
            }
            Ok(_) if !is_finished && state.max_rounds == config.rounds => (Some(state), None),
            Ok(_) => (None, None),
            Err(problem) => {
                tracing::warn!(%move_id, problem, "discarded the earlier state of a debate");
                (None, None)
            }
        }
    }

    /// Completes the result of a debate that an earlier execution has finished. Creates no sandbox.
    fn finished(&self, debate: &DebateRequest, mut result: DebateResult) -> DebateResult {
        match &debate.isolation {
            Some(record) => {
                result.isolation = record.isolation.clone();
                let ready = ready_event(&debate.the_move, &record.isolation);
                result.status_updates.insert(0, ready);
            }
            // An earlier process died after the debate finished but before the run recorded where the debate ran. The
            // current back end is assumed.
            None => result.isolation = isolation_of(&self.sandboxes),
        }
        result
    }

    /// Runs a debate in a sandbox, from the state of an earlier execution if there is one.
    async fn run_in_sandbox<C: Send + Sync + 'static>(
        &self,
        debate: &DebateRequest,
        earlier: Option<&SandboxState>,
        cx: &Context<C>,
    ) -> Result<DebateResult, NodeError> {
        let the_move = &debate.the_move;
        let _reserve = self.models.reserve_scoring(the_move.move_id);
        let concurrency = self.queue.concurrency();
        let (own, shared) = (self.sandbox_spec(the_move), self.shared_spec(the_move));
        let reserved = self.supply.reserve(&self.sandboxes, own, shared, concurrency).await;
        let (sandboxes, created) = sandbox_creation::create_sandbox(
            the_move.move_id,
            reserved.spec(),
            &self.sandboxes,
            self.isolation,
            |isolation, name| open_sandboxes(isolation, Some(name)),
            self.fallback.as_ref(),
        )
        .await;
        let isolation = isolation_of(&sandboxes);
        let mut sent = Vec::new();
        let mut result = match created {
            Ok(degraded) => {
                sent.extend(degraded);
                sent.push(ready_event(the_move, &isolation));
                for event in &sent {
                    cx.emit(event).await;
                }
                self.run_in(&sandboxes, &reserved, debate, earlier, cx).await?
            }
            Err(error) => DebateResult::failed(error.to_string()),
        };
        result.isolation = isolation;
        result.status_updates.splice(0..0, sent);
        Ok(result)
    }

    /// Runs a debate as a subgraph of the task, in its sandbox from `sandboxes`.
    async fn run_in<C: Send + Sync + 'static>(
        &self,
        sandboxes: &Sandboxes,
        reserved: &ReservedSandbox<'_>,
        debate: &DebateRequest,
        earlier: Option<&SandboxState>,
        cx: &Context<C>,
    ) -> Result<DebateResult, NodeError> {
        let graph = debate::graph().map_err(NodeError::terminal)?;
        let graph = sandboxed(&graph, sandboxes, self.sandbox_options(reserved, debate));
        let input = earlier.cloned().unwrap_or_else(|| self.first_state(debate));
        let result = cx.run_graph(&graph, Persistence::Invocation, input).await;
        // A failure of the storage of the run (its database or its recording) aborts the run, not only this debate.
        if let Some(failure) = self.saver.storage_failure() {
            return Err(NodeError::terminal(failure.clone()));
        }
        if let Some(failure) = self.models.storage_failure() {
            return Err(NodeError::terminal(failure.to_owned()));
        }
        Ok(match result {
            Ok(Some(state)) => {
                let result = DebateResult::from_state(state, &self.config, debate.the_move.move_id);
                result.unwrap_or_else(DebateResult::failed)
            }
            Ok(None) => DebateResult::failed("the debate ended without a result"),
            Err(error) if error.source().is_some() => DebateResult::failed(error.to_string()),
            // The guest cannot interrupt or stop the run, so the run itself is being stopped.
            Err(error) => return Err(error),
        })
    }

    fn sandbox_options(
        &self,
        reserved: &ReservedSandbox<'_>,
        debate: &DebateRequest,
    ) -> SandboxOptions {
        let DebateRequest { the_move, findings, .. } = debate;
        let names = debate::log_names(self.config.decision_makers.len());
        let dir = self.log_dir.join(the_move.move_id.to_string());
        let options = SandboxOptions::new(reserved.spec().clone());
        let options = if reserved.is_kept() { options.keep_alive() } else { options.exact_name() };
        options
            .deny_interrupts()
            .max_guests(MAX_GUESTS)
            .call_policy(call_policy::call_policy(&self.models, &self.config, the_move, findings))
            .event_filter(self.event_filter(the_move))
            .before_delete(move |sandbox| copy_files(sandbox, names.clone(), dir.clone()))
    }

    /// Returns a filter for the events of a guest, which may report only rounds of its own debate.
    fn event_filter(&self, the_move: &Move) -> impl Fn(&Event) -> bool + Send + Sync + 'static {
        let quota = Mutex::new(EventQuota::new(&self.config, MAX_GUESTS, self.is_traced));
        let (config, move_id) = (self.config.clone(), the_move.move_id.to_string());
        move |event| {
            if !quota.lock().unwrap_or_else(PoisonError::into_inner).admit(event) {
                return false;
            }
            let EventKind::Custom(value) = &event.kind else { return true };
            let is_allowed = serde_json::from_value(value.clone())
                .is_ok_and(|it| is_allowed_from_guest(&it, &move_id, &config));
            if !is_allowed {
                tracing::warn!(
                    move_id,
                    "dropped a guest event that is invalid or about another move"
                );
            }
            is_allowed
        }
    }

    /// Returns the specification of a sandbox for the debate about one move.
    fn sandbox_spec(&self, the_move: &Move) -> Spec {
        let move_id = the_move.move_id.to_string();
        self.named_spec(the_move, &format!("-{move_id}")).label("move", move_id)
    }

    /// Returns the specification of a sandbox that several debates of the run can use.
    fn shared_spec(&self, the_move: &Move) -> Spec {
        self.named_spec(the_move, "")
    }

    fn named_spec(&self, the_move: &Move, of_move: &str) -> Spec {
        let ticker = the_move.ticker.as_str();
        let name = Spec::sanitize_name(&format!("negotiate-{ticker}{of_move}-{}", self.run_id));
        Spec::new(name)
            .memory(SANDBOX_MEMORY)
            .label("project", "ai-consulting-agency")
            .label("ticker", ticker)
            .label("layer", "sandbox")
            .label("run", &*self.run_id)
    }

    /// Returns the initial state of a debate that no earlier execution has started.
    fn first_state(&self, debate: &DebateRequest) -> SandboxState {
        SandboxState {
            brief: Brief::new(&debate.the_move, &debate.findings),
            terms: debate_terms(&self.config, self.models.choice(), &self.fence, self.baseline),
            max_rounds: self.config.rounds,
            ..SandboxState::default()
        }
    }

    fn budget_event(&self, result: &DebateResult) -> Option<PipelineEvent> {
        if let Some(reason) = result.ended_early.clone() {
            return Some(PipelineEvent::BudgetExceeded { reason });
        }
        let percent = self.models.budget_used_percent().filter(|it| *it >= 80)?;
        Some(PipelineEvent::BudgetWarning { percent: percent / 10 * 10 })
    }
}

/// Copies the transcripts and scores of a debate from its sandbox into a directory. The sandbox also has the
/// transcripts as JSON, which is part of the report.
async fn copy_files(sandbox: Sandbox, logs: Vec<String>, dir: PathBuf) {
    let logs = logs.iter().map(|it| format!("{it}.md"));
    let files = logs.map(|it| (format!("{}/{it}", debate::LOGS_DIR), it));
    let scores = (debate::SCORES_FILE.to_owned(), debate::SCORES_FILE.to_owned());
    for (from, to) in files.chain([scores]) {
        // A debate that ended early has not written all files.
        let Ok(bytes) = sandbox.fs().read(&from).await else { continue };
        if let Err(error) = write_file(&dir, &to, &bytes).await {
            tracing::warn!(%error, file = to, "cannot copy a file out of a sandbox");
        }
    }
}

fn ready_event(the_move: &Move, isolation: &Isolation) -> PipelineEvent {
    PipelineEvent::SandboxReady {
        move_id: the_move.move_id.to_string(),
        title: the_move.draft.title.clone(),
        backend: isolation.backend.clone(),
        isolation: isolation.level,
    }
}

/// Returns the participants and settings of the debates in a run.
pub(crate) fn debate_terms(
    config: &Config,
    choice: &ModelChoice,
    fence: &Fence,
    baseline: bool,
) -> Terms {
    let settings = |group, persona: &Persona| choice.call_settings(config, group, &persona.id);
    let participant = |group, it: &Persona| Participant {
        settings: settings(group, it),
        summaries: (config.summaries == Summaries::Model).then(|| settings(Group::Summaries, it)),
        persona: it.clone(),
    };
    let makers = &config.decision_makers;
    Terms {
        critic: participant(Group::Critic, &config.critic),
        decision_makers: makers.iter().map(|it| participant(Group::DecisionMakers, it)).collect(),
        scoring: makers.iter().map(|it| settings(Group::Scoring, it)).collect(),
        metrics: config.metrics.clone(),
        fence: fence.clone(),
        baseline,
    }
}

async fn write_file(dir: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    tokio::fs::create_dir_all(dir).await?;
    tokio::fs::write(dir.join(name), bytes).await
}
