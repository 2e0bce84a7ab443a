//! Where debates are held: each in a sandbox of its own, which asks here for its calls and its checkpoints.

mod backends;
mod gate;
mod heed;
mod settled;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::join;
use graph_core::{
    Checkpointer, Context, Event, EventKind, Exit, Mode, NodeError,
    checkpoint::{CheckpointError, Lookup},
};
use graph_trace::{End, Header, Trace, TraceBuilder};
use sandbox_vm::{GraphRun, Sandboxes, Spec};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    config::{Config, Group, Persona},
    debate::{self, SandboxState, Speaking, Terms},
    event::PipelineEvent,
    fence::Fence,
    finding::Findings,
    models::Choice,
    moves::{Move, MoveId},
    pipeline::Deps,
    prompt::Brief,
    report::Isolation,
    score::{MakerScore, Mark},
};

pub use backends::{BACKENDS, open};
use heed::Heed;
pub(crate) use settled::Settled;
use settled::is_told_by_guests;

/// So many guests may die before a debate is given up.
const GUESTS: u32 = 3;

/// What a debate's sandbox may have.
const MEMORY: u64 = 2048 << 20;

/// Where debates are held.
#[derive(Debug)]
pub struct Debates {
    /// The sandboxes.
    pub sandboxes: Sandboxes,
    /// Where a debate is held whose sandbox cannot be made, if that is allowed: in this process.
    pub fallback: Option<Sandboxes>,
    /// Who keeps their threads, each under its move's number.
    pub saver: Arc<dyn Checkpointer>,
    /// The run, which is part of each sandbox's name.
    pub run_id: String,
    /// Where, for back ends that have several places.
    pub region: Option<String>,
    /// So many debates at once.
    pub at_once: usize,
    /// Whether scores are asked for before the debates too.
    pub baseline: bool,
    /// Where the logs of the sandboxes go.
    pub folder: PathBuf,
    /// What the debates did, where somebody wants to know.
    pub traces: Option<Traces>,
    /// Where they were held before, where a run is repeated.
    pub held: Option<Held>,
}

/// Where the debates of a run were held. It is a fact of that run: a replay has it from there, whatever holds its own.
#[derive(Debug, Clone)]
pub struct Held {
    /// The back end, and whether all were apart from the host.
    pub isolation: Isolation,
    /// The moves whose debates were not.
    pub not_isolated: BTreeSet<MoveId>,
}

/// The traces of debates, by move. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Traces(Arc<Mutex<BTreeMap<MoveId, Trace>>>);

impl Traces {
    /// All traces so far.
    pub fn all(&self) -> BTreeMap<MoveId, Trace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, move_id: MoveId, trace: Trace) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(move_id, trace);
    }
}

/// A debate to hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Debate<'a> {
    pub(crate) the_move: &'a Move,
    pub(crate) findings: &'a [Findings],
}

impl Debates {
    /// What the sandboxes run in.
    pub fn backend(&self) -> &'static str {
        self.sandboxes.backend()
    }

    /// Whether that keeps them apart from the host.
    pub fn is_isolated(&self) -> bool {
        self.sandboxes.isolated()
    }

    /// Where the debates are held, as a report says it, apart from those that had to be held elsewhere.
    pub(crate) fn isolation(&self) -> Isolation {
        let here =
            || Isolation { backend: self.backend().to_owned(), isolated: self.is_isolated() };
        self.held.as_ref().map_or_else(here, |it| it.isolation.clone())
    }

    /// Why debates run without isolation, where they do.
    pub(crate) fn degraded(&self) -> Option<String> {
        if self.is_isolated() {
            return None;
        }
        let problems = self
            .sandboxes
            .reports()
            .iter()
            .filter_map(|it| Some(format!("{}: {}", it.backend, it.problem.as_deref()?)));
        let problems: Vec<String> = problems.collect();
        Some(if problems.is_empty() {
            "isolation is switched off".to_owned()
        } else {
            problems.join("; ")
        })
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.at_once.max(1)
    }

    /// Holds a debate to its end, from where it stands.
    pub(crate) async fn hold(
        &self,
        debate: Debate<'_>,
        cx: &Context<Deps>,
    ) -> Result<Settled, NodeError> {
        let the_move = debate.the_move;
        let move_id = the_move.move_id.to_string();
        let _open = cx.deps().models.open_debate();
        let mut told = Vec::new();
        let mut sandboxes = &self.sandboxes;
        let mut made = sandboxes.create_if_not_exists(self.spec(the_move)).await;
        // Only where there is no guest yet: what one has done must not decide where it goes on.
        if let (Err(error), Some(fallback)) = (&made, &self.fallback) {
            let (backend, reason) = (fallback.backend().to_owned(), error.to_string());
            told.push(PipelineEvent::SandboxDegraded { backend, reason });
            sandboxes = fallback;
            made = sandboxes.create_if_not_exists(self.spec(the_move)).await;
        }
        let mut settled = match made {
            Ok(_) => {
                told.push(PipelineEvent::SandboxReady {
                    move_id: move_id.clone(),
                    title: the_move.draft.title.clone(),
                    backend: sandboxes.backend().to_owned(),
                    isolated: sandboxes.isolated(),
                });
                for event in &told {
                    cx.emit(event).await;
                }
                self.hold_in(sandboxes, debate, cx).await?
            }
            Err(error) => Settled::failed(error.to_string()),
        };
        (settled.backend, settled.isolated) = match &self.held {
            Some(held) => {
                let isolated = !held.not_isolated.contains(&the_move.move_id);
                (held.isolation.backend.clone(), isolated)
            }
            None => (sandboxes.backend().to_owned(), sandboxes.isolated()),
        };
        if !settled.isolated {
            settled.marks.insert(Mark::NotIsolated);
        }
        settled.status_updates.splice(0..0, told);
        settled.status_updates.push(match settled.problem.clone() {
            Some(reason) => PipelineEvent::SandboxSkipped { move_id, reason },
            None => PipelineEvent::SandboxScored {
                move_id,
                score: settled.scores.values().map(MakerScore::total).sum(),
                breakdown: settled.scores.clone(),
            },
        });
        settled.status_updates.extend(budget_event(&settled, cx.deps()));
        // A debate that was over before this run began has told nothing here; what was told is not told again.
        for event in &settled.status_updates {
            cx.emit(event).await;
        }
        Ok(settled)
    }

    /// Holds a debate in one of these sandboxes, and takes what it wrote out of it.
    async fn hold_in(
        &self,
        sandboxes: &Sandboxes,
        debate: Debate<'_>,
        cx: &Context<Deps>,
    ) -> Result<Settled, NodeError> {
        let (deps, the_move) = (cx.deps(), debate.the_move);
        let spec = self.spec(the_move);
        let run = self.run(debate, deps).await?;
        let (sender, events) = mpsc::unbounded_channel();
        let mut heed = Heed::new(&deps.config, self.traces.is_some());
        let told = move |event| {
            if heed.takes(&event) {
                drop(sender.send(event));
            }
        };
        let held = sandboxes.run_graph(spec.clone(), run.graph, GUESTS, told);
        let (ended, ()) = join(held, self.listen(the_move, run.input, events, cx)).await;
        if let Some(sandbox) = sandboxes.get(&spec.name) {
            self.fetch(the_move, &sandbox, deps.config.decision_makers.len()).await;
            // Nothing runs between two debates.
            sandbox.delete().await;
        }
        Ok(match ended {
            Ok(Exit::Done(state)) => Settled::read(state, &deps.config, the_move.move_id),
            Ok(_) => Settled::failed("the debate stopped before its end"),
            Err(error) => Settled::failed(error.to_string()),
        })
    }

    fn spec(&self, the_move: &Move) -> Spec {
        let (ticker, move_id) = (the_move.ticker.as_str(), the_move.move_id);
        let name = Spec::clean_name(&format!("negotiate-{ticker}-{move_id}-{}", self.run_id));
        let spec = Spec::new(name)
            .memory(MEMORY)
            .label("project", "ai-consulting-agency")
            .label("ticker", ticker)
            .label("move", move_id.to_string())
            .label("layer", "sandbox")
            .label("run", &*self.run_id);
        match &self.region {
            Some(region) => spec.region(region),
            None => spec,
        }
    }

    async fn run(&self, debate: Debate<'_>, deps: &Deps) -> Result<Prepared, NodeError> {
        let thread = debate.the_move.move_id.to_string();
        let state = SandboxState {
            brief: Brief::new(debate.the_move, debate.findings),
            terms: terms(&deps.config, deps.models.choice(), &deps.fence, self.baseline),
            max_rounds: deps.config.rounds,
            ..SandboxState::default()
        };
        let input = sandbox_vm::fields(&state).map_err(NodeError::terminal)?;
        let begun = self.has_begun(&thread).await.map_err(NodeError::terminal)?;
        // One step more than a debate can have, with scores before it.
        let steps = u32::try_from(deps.config.steps_per_debate()).unwrap_or(u32::MAX - 2) + 2;
        let modes = if self.traces.is_some() { Mode::DEBUG.to_vec() } else { vec![Mode::Custom] };
        let graph = GraphRun::new(debate::GRAPH)
            .thread(&thread, self.saver.clone())
            .gate(gate::gate(deps, debate.the_move))
            .modes(modes)
            .steps(steps);
        let given = Value::Object(input.clone());
        let graph = if begun { graph.proceed() } else { graph.input(input) };
        Ok(Prepared { graph, input: given })
    }

    /// Whether there is something to go on with. A debate that nobody opened is over, and begins anew.
    async fn has_begun(&self, thread: &str) -> Result<bool, CheckpointError> {
        let Some(head) = self.saver.get(&Lookup::head(thread, "")).await? else { return Ok(false) };
        let is_at_start = head.values.get("current_round").is_none_or(|it| it == 0);
        let was_silent = head.values.get("warnings").and_then(Value::as_array);
        if is_at_start && was_silent.is_some_and(|it| !it.is_empty()) {
            self.saver.delete_thread(thread).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Hands on what the guest tells, as far as it is about its own move.
    async fn listen(
        &self,
        the_move: &Move,
        input: Value,
        mut events: mpsc::UnboundedReceiver<Event>,
        cx: &Context<Deps>,
    ) {
        let mut builder = TraceBuilder::new();
        builder.begin(input.clone());
        let own = the_move.move_id.to_string();
        while let Some(event) = events.recv().await {
            if let EventKind::Custom(value) = &event.kind {
                match serde_json::from_value::<PipelineEvent>(value.clone()) {
                    Ok(event) if is_told_by_guests(&event, &own, &cx.deps().config) => {
                        cx.emit(event).await;
                    }
                    _ => tracing::warn!(own, "a guest tells what is none of its business"),
                }
            } else if self.traces.is_some() {
                builder.note(&event);
            }
        }
        if let Some(traces) = &self.traces {
            let graph = debate::graph(self.saver.clone()).map(|it| it.identity());
            let header = Header {
                graph: graph.unwrap_or_default(),
                engine: graph_core::VERSION.to_owned(),
                input,
                then: Vec::new(),
            };
            traces.keep(the_move.move_id, builder.finish(header, End::Done));
        }
    }

    /// Takes the logs and the scores out of the sandbox's files.
    async fn fetch(&self, the_move: &Move, sandbox: &sandbox_vm::Sandbox, makers: usize) {
        let names = debate::log_names(makers);
        let logs = names.iter().flat_map(|it| [format!("{it}.md"), format!("{it}.json")]);
        let files = logs.map(|it| (format!("{}/{it}", debate::LOGS), it));
        let scores = (debate::SCORES.to_owned(), debate::SCORES.to_owned());
        let folder = self.folder.join(the_move.move_id.to_string());
        for (from, to) in files.chain([scores]) {
            // A debate that ended early has not written all of them.
            let Ok(bytes) = sandbox.fs().read(&from).await else { continue };
            if let Err(error) = keep(&folder, &to, &bytes).await {
                tracing::warn!(%error, file = to, "a log of a sandbox could not be kept");
            }
        }
    }
}

fn budget_event(settled: &Settled, deps: &Deps) -> Option<PipelineEvent> {
    if let Some(reason) = settled.ended_early.clone() {
        return Some(PipelineEvent::BudgetExceeded { reason });
    }
    let percent = deps.models.spent_percent().filter(|it| *it >= 80)?;
    Some(PipelineEvent::BudgetWarning { percent: percent / 10 * 10 })
}

struct Prepared {
    graph: GraphRun,
    input: Value,
}

/// Who takes part in a run's debates, and how.
pub(crate) fn terms(config: &Config, choice: &Choice, fence: &Fence, baseline: bool) -> Terms {
    let voice = |group, persona: &Persona| choice.voice(config, group, &persona.id);
    let speaking = |group, it: &Persona| Speaking { voice: voice(group, it), persona: it.clone() };
    let makers = &config.decision_makers;
    Terms {
        critic: speaking(Group::Critic, &config.critic),
        decision_makers: makers.iter().map(|it| speaking(Group::DecisionMakers, it)).collect(),
        scoring: makers.iter().map(|it| voice(Group::Scoring, it)).collect(),
        metrics: config.metrics.clone(),
        fence: fence.clone(),
        baseline,
    }
}

async fn keep(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    tokio::fs::create_dir_all(folder).await?;
    tokio::fs::write(folder.join(name), bytes).await
}
