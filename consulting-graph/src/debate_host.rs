//! Host side of the debates. Each debate runs in its own sandbox. The host makes the model calls of the debate and
//! stores its checkpoints.

mod backends;
mod call_policy;
mod event_quota;
mod isolation;
mod monitored_saver;
mod result;
mod status;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::join;
use graph_core::{Checkpointer, Context, Event, EventKind, NodeError, RunOutcome, StreamMode};
use graph_trace::{Header, RunStatus, Trace, TraceBuilder};
use sandbox_vm::{GraphRun, Sandboxes, Spec, report::IsolationLevel};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::{
    config::{Config, Group, Persona},
    debate::{self, Participant, SandboxState, Terms},
    event::PipelineEvent,
    fence::Fence,
    finding::Findings,
    models::{ModelChoice, Models},
    moves::{Move, MoveId},
    prompt::Brief,
    report::Isolation,
    score::{MakerScore, Mark},
};

pub use backends::{BACKENDS, open_sandboxes};
use event_quota::EventQuota;
pub use isolation::IsolationRecord;
use monitored_saver::MonitoredSaver;
pub(crate) use result::DebateResult;
use result::is_allowed_from_guest;
use status::{DebateStatus, prepare_debate};

/// Back ends that run debates in VMs. The first one needs nothing to be installed.
const VM_BACKENDS: [&str; 2] = ["kvm-process", "microvm"];

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
    /// Isolation requirement, which also applies to the back ends that are tried if a sandbox cannot be created.
    pub isolation: sandbox_vm::Isolation,
    /// In-process sandboxes for debates whose sandbox cannot be created. `None` if isolation is required or already
    /// off.
    pub fallback: Option<Sandboxes>,
    /// Checkpointer of the debates. The thread of a debate is named after its move.
    pub saver: Arc<dyn Checkpointer>,
    /// Id of the run. It is part of the name of each sandbox.
    pub run_id: String,
    /// Maximum number of concurrent debates.
    pub concurrency: usize,
    /// Whether moves are also scored before the debates.
    pub baseline: bool,
    /// Directory to which the transcripts and scores are copied from the sandboxes.
    pub log_dir: PathBuf,
    /// Collector for the traces of all debates. `None` if the debates are not traced.
    pub traces: Option<DebateTraces>,
    /// In a replay, the isolation of the debates in the original run, which the report shows instead of the isolation
    /// in the replay. Otherwise empty.
    pub recorded_isolation: Vec<IsolationRecord>,
}

/// Traces of debates, by move. Clones share the same traces.
#[derive(Clone, Debug, Default)]
pub struct DebateTraces(Arc<Mutex<BTreeMap<MoveId, Trace>>>);

impl DebateTraces {
    /// Returns all traces collected so far.
    pub fn all(&self) -> BTreeMap<MoveId, Trace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn insert(&self, move_id: MoveId, trace: Trace) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(move_id, trace);
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DebateRequest<'a> {
    pub(crate) the_move: &'a Move,
    pub(crate) findings: &'a [Findings],
    /// Record of where the debate ran. `None` unless the debate had finished before the run was resumed.
    pub(crate) isolation: Option<&'a IsolationRecord>,
}

impl DebateHost {
    /// Returns the name of the sandbox back end.
    pub fn backend(&self) -> &'static str {
        self.sandboxes.backend()
    }

    /// Returns the names of all back ends that the debates used, and the weakest isolation of a debate. If there are no
    /// records, returns the current back end and its isolation.
    pub(crate) fn combined_isolation(&self, records: &[IsolationRecord]) -> Isolation {
        let current =
            || Isolation { backend: self.backend().to_owned(), level: self.sandboxes.level() };
        isolation::combine(records).unwrap_or_else(current)
    }

    /// Returns an event that says why debates do not run in virtual machines, or `None` if they do.
    pub(crate) fn degraded_event(&self) -> Option<PipelineEvent> {
        let (backend, isolation) = (self.backend().to_owned(), self.sandboxes.level());
        let reason = match isolation {
            IsolationLevel::Vm => return None,
            IsolationLevel::Off => self.isolation_problem(),
            IsolationLevel::Process | IsolationLevel::Kernel => self.advice_for_vms(),
        };
        Some(PipelineEvent::SandboxDegraded { backend, isolation, reason })
    }

    /// Returns why debates run without isolation.
    fn isolation_problem(&self) -> String {
        let reports = self.sandboxes.reports().iter();
        let problems =
            reports.filter_map(|it| Some(format!("{}: {}", it.backend, it.problem.as_deref()?)));
        let problems: Vec<String> = problems.collect();
        if problems.is_empty() { "isolation is off".to_owned() } else { problems.join("; ") }
    }

    /// Returns what to do so that debates run in virtual machines.
    fn advice_for_vms(&self) -> String {
        let reports = self.sandboxes.reports();
        let advice_of = |name: &str| reports.iter().find(|it| it.backend == name)?.advice.first();
        match VM_BACKENDS.into_iter().find_map(advice_of) {
            Some(advice) => format!("for VMs, {advice}"),
            None => "for VMs, omit --sandbox".to_owned(),
        }
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency.max(1)
    }

    /// Runs a debate to its end. An interrupted debate resumes from its last checkpoint.
    pub(crate) async fn run_debate<C: Send + Sync + 'static>(
        &self,
        debate: DebateRequest<'_>,
        cx: &Context<C>,
    ) -> Result<DebateResult, NodeError> {
        let move_id = debate.the_move.move_id;
        let brief = Brief::new(debate.the_move, debate.findings);
        let status = prepare_debate(&self.saver, move_id, &brief, &self.config).await?;
        let mut result = match status {
            DebateStatus::Finished(result) => {
                drop(self.models.reserve_scoring(move_id));
                self.finished(*result, debate)
            }
            DebateStatus::InProgress => self.run_in_sandbox(debate, GraphRun::proceed, cx).await?,
            DebateStatus::New => {
                let input = self.initial_state(debate)?;
                self.run_in_sandbox(debate, |it| it.input(input), cx).await?
            }
        };
        if let Some(record) = self.recorded_isolation.iter().find(|it| it.move_id == move_id) {
            (result.backend, result.level) = (record.backend.clone(), record.level);
        }
        if result.level == IsolationLevel::Off {
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

    /// Sets the back end and the isolation in the result of a finished debate. Creates no sandbox.
    fn finished(&self, mut result: DebateResult, debate: DebateRequest<'_>) -> DebateResult {
        match debate.isolation {
            Some(record) => {
                (result.backend, result.level) = (record.backend.clone(), record.level);
                result
                    .status_updates
                    .insert(0, ready_event(debate.the_move, &*record.backend, record.level));
            }
            // An earlier process died after the debate finished but before the run recorded where the debate ran. The
            // current back end is assumed.
            None => {
                (result.backend, result.level) =
                    (self.backend().to_owned(), self.sandboxes.level());
            }
        }
        result
    }

    /// Runs or resumes a debate in a sandbox.
    async fn run_in_sandbox<C: Send + Sync + 'static>(
        &self,
        debate: DebateRequest<'_>,
        start: impl FnOnce(GraphRun) -> GraphRun,
        cx: &Context<C>,
    ) -> Result<DebateResult, NodeError> {
        let the_move = debate.the_move;
        let _reserve = self.models.reserve_scoring(the_move.move_id);
        let (sandboxes, created) = self.create_sandbox(the_move).await;
        let (backend, level) = (sandboxes.backend(), sandboxes.level());
        let mut sent = Vec::new();
        let mut result = match created {
            Ok(degraded) => {
                sent.extend(degraded);
                sent.push(ready_event(the_move, backend, level));
                for event in &sent {
                    cx.emit(event).await;
                }
                self.run_in(&sandboxes, debate, start, cx).await?
            }
            Err(error) => DebateResult::failed(error.to_string()),
        };
        (result.backend, result.level) = (backend.to_owned(), level);
        result.status_updates.splice(0..0, sent);
        Ok(result)
    }

    /// Creates the sandbox of a debate. Tries the back end twice, because a guest may die at its start for a passing
    /// reason, then the other back ends that provide the required isolation, and at last the in-process back end, if the
    /// run allows it. At this point no debate runs yet, so no guest can influence how its debate is isolated.
    ///
    /// Returns the back end and, if it does not isolate guests, an event that states why it is used.
    async fn create_sandbox(
        &self,
        the_move: &Move,
    ) -> (Sandboxes, Result<Option<PipelineEvent>, sandbox_vm::Error>) {
        let create =
            async |it: &Sandboxes| it.create_if_not_exists(self.sandbox_spec(the_move)).await;
        if create(&self.sandboxes).await.is_ok() {
            return (self.sandboxes.clone(), Ok(None));
        }
        let Err(error) = create(&self.sandboxes).await else {
            return (self.sandboxes.clone(), Ok(None));
        };
        if self.sandboxes.isolated() {
            let required = match self.isolation {
                sandbox_vm::Isolation::Preferred => sandbox_vm::Isolation::Process,
                required => required,
            };
            for name in BACKENDS.into_iter().filter(|it| *it != self.backend()) {
                let opened = open_sandboxes(required, Some(name)).await;
                if let Ok(sandboxes) = opened
                    && create(&sandboxes).await.is_ok()
                {
                    return (sandboxes, Ok(None));
                }
            }
        }
        let Some(fallback) = &self.fallback else { return (self.sandboxes.clone(), Err(error)) };
        let (backend, reason) = (fallback.backend().to_owned(), error.to_string());
        let isolation = fallback.level();
        let degraded = PipelineEvent::SandboxDegraded { backend, isolation, reason };
        (fallback.clone(), create(fallback).await.map(|_| Some(degraded)))
    }

    /// Runs a debate in a new sandbox from `sandboxes` and copies the files of the debate from the sandbox to the log
    /// directory.
    async fn run_in<C: Send + Sync + 'static>(
        &self,
        sandboxes: &Sandboxes,
        debate: DebateRequest<'_>,
        start: impl FnOnce(GraphRun) -> GraphRun,
        cx: &Context<C>,
    ) -> Result<DebateResult, NodeError> {
        let the_move = debate.the_move;
        let spec = self.sandbox_spec(the_move);
        let saver = Arc::new(MonitoredSaver::new(self.saver.clone()));
        let graph = start(self.graph_run(debate, saver.clone()));
        let input = Value::Object(self.initial_state(debate)?);
        let (sender, events) = mpsc::unbounded_channel();
        let mut quota = EventQuota::new(&self.config, MAX_GUESTS, self.traces.is_some());
        let forward = move |event| {
            if quota.admit(&event) {
                drop(sender.send(event));
            }
        };
        let running = sandboxes.run_graph(spec.clone(), graph, MAX_GUESTS, forward);
        let (exit, ()) = join(running, self.forward_events(the_move, input, events, cx)).await;
        if let Some(sandbox) = sandboxes.get(&spec.name) {
            self.copy_files(the_move, &sandbox).await;
            // Each debate has its own sandbox, so this sandbox is no longer needed.
            sandbox.delete().await;
        }
        // A failure of the storage of the run (its database or its recording) aborts the run, not only this debate.
        if let Some(failure) = saver.storage_failure() {
            return Err(NodeError::terminal(failure.clone()));
        }
        if let Some(failure) = self.models.storage_failure() {
            return Err(NodeError::terminal(failure.to_owned()));
        }
        Ok(match exit {
            Ok(RunOutcome::Done(state)) => {
                DebateResult::from_state(state, &self.config, the_move.move_id)
            }
            Ok(_) => DebateResult::failed("the debate was interrupted before its end"),
            Err(error) => DebateResult::failed(error.to_string()),
        })
    }

    fn sandbox_spec(&self, the_move: &Move) -> Spec {
        let (ticker, move_id) = (the_move.ticker.as_str(), the_move.move_id);
        let name = Spec::sanitize_name(&format!("negotiate-{ticker}-{move_id}-{}", self.run_id));
        Spec::new(name)
            .memory(SANDBOX_MEMORY)
            .label("project", "ai-consulting-agency")
            .label("ticker", ticker)
            .label("move", move_id.to_string())
            .label("layer", "sandbox")
            .label("run", &*self.run_id)
    }

    /// Builds the graph run of a debate. Its thread is stored in the database of the consulting run.
    fn graph_run(&self, debate: DebateRequest<'_>, saver: Arc<dyn Checkpointer>) -> GraphRun {
        let DebateRequest { the_move, findings, .. } = debate;
        // Adds one step for baseline scoring, which `steps_per_debate` does not count, and one step as a margin.
        let steps = u32::try_from(self.config.steps_per_debate()).unwrap_or(u32::MAX - 2) + 2;
        let modes = if self.traces.is_some() {
            StreamMode::DEBUG.to_vec()
        } else {
            vec![StreamMode::Custom]
        };
        GraphRun::new(debate::GRAPH)
            .thread(the_move.move_id.to_string(), saver)
            .call_policy(call_policy::call_policy(&self.models, &self.config, the_move, findings))
            .stream_modes(modes)
            .step_limit(steps)
    }

    fn initial_state(&self, debate: DebateRequest<'_>) -> Result<Map<String, Value>, NodeError> {
        let state = SandboxState {
            brief: Brief::new(debate.the_move, debate.findings),
            terms: debate_terms(&self.config, self.models.choice(), &self.fence, self.baseline),
            max_rounds: self.config.rounds,
            ..SandboxState::default()
        };
        sandbox_vm::input_fields(&state).map_err(NodeError::terminal)
    }

    /// Forwards the guest's events about its own move and builds the trace of the debate.
    async fn forward_events<C: Send + Sync + 'static>(
        &self,
        the_move: &Move,
        input: Value,
        mut events: mpsc::UnboundedReceiver<Event>,
        cx: &Context<C>,
    ) {
        let mut builder = TraceBuilder::new();
        builder.begin_run(input.clone());
        let move_id = the_move.move_id.to_string();
        while let Some(event) = events.recv().await {
            if let EventKind::Custom(value) = &event.kind {
                match serde_json::from_value::<PipelineEvent>(value.clone()) {
                    Ok(event) if is_allowed_from_guest(&event, &move_id, &self.config) => {
                        cx.emit(event).await;
                    }
                    _ => tracing::warn!(
                        move_id,
                        "dropped a guest event that is invalid or about another move"
                    ),
                }
            } else if self.traces.is_some() {
                builder.add_event(&event);
            }
        }
        if let Some(traces) = &self.traces {
            let graph = debate::graph(self.saver.clone()).map(|it| it.fingerprint());
            let header = Header {
                graph: graph.unwrap_or_default(),
                engine: graph_core::VERSION.to_owned(),
                input,
                later_inputs: Vec::new(),
            };
            traces.insert(the_move.move_id, builder.finish(header, RunStatus::Done));
        }
    }

    fn budget_event(&self, result: &DebateResult) -> Option<PipelineEvent> {
        if let Some(reason) = result.ended_early.clone() {
            return Some(PipelineEvent::BudgetExceeded { reason });
        }
        let percent = self.models.budget_used_percent().filter(|it| *it >= 80)?;
        Some(PipelineEvent::BudgetWarning { percent: percent / 10 * 10 })
    }

    /// Copies the transcripts and scores from the sandbox into the log directory.
    async fn copy_files(&self, the_move: &Move, sandbox: &sandbox_vm::Sandbox) {
        let names = debate::log_names(self.config.decision_makers.len());
        let logs = names.iter().flat_map(|it| [format!("{it}.md"), format!("{it}.json")]);
        let files = logs.map(|it| (format!("{}/{it}", debate::LOGS_DIR), it));
        let scores = (debate::SCORES_FILE.to_owned(), debate::SCORES_FILE.to_owned());
        let dir = self.log_dir.join(the_move.move_id.to_string());
        for (from, to) in files.chain([scores]) {
            // A debate that ended early has not written all files.
            let Ok(bytes) = sandbox.fs().read(&from).await else { continue };
            if let Err(error) = write_file(&dir, &to, &bytes).await {
                tracing::warn!(%error, file = to, "cannot copy a file out of a sandbox");
            }
        }
    }
}

fn ready_event(
    the_move: &Move,
    backend: impl Into<String>,
    isolation: IsolationLevel,
) -> PipelineEvent {
    PipelineEvent::SandboxReady {
        move_id: the_move.move_id.to_string(),
        title: the_move.draft.title.clone(),
        backend: backend.into(),
        isolation,
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
    let participant =
        |group, it: &Persona| Participant { settings: settings(group, it), persona: it.clone() };
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
