//! Where debates are held: each in a sandbox of its own, which asks here for its calls and its checkpoints.

mod backends;
mod gate;
mod heed;
mod held;
mod settled;
mod stand;
mod watched;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::join;
use graph_core::{Checkpointer, Context, Event, EventKind, Exit, Mode, NodeError};
use graph_trace::{End, Header, Trace, TraceBuilder};
use sandbox_vm::{GraphRun, Sandboxes, Spec};
use serde_json::{Map, Value};
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
pub use held::HeldIn;
pub(crate) use settled::Settled;
use settled::is_told_by_guests;
use stand::Stand;
use watched::Watched;

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
    /// Where they were held in the run that is repeated, whatever holds them now; empty where none is.
    pub held_in: Vec<HeldIn>,
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
    /// Where it was held, if it was over before the run was gone on with.
    pub(crate) held_in: Option<&'a HeldIn>,
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

    /// Where the debates were held, as a report says it; where there were none, where they would have been.
    pub(crate) fn isolation(&self, held: &[HeldIn]) -> Isolation {
        let here =
            || Isolation { backend: self.backend().to_owned(), isolated: self.is_isolated() };
        held::together(held).unwrap_or_else(here)
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
        let move_id = debate.the_move.move_id;
        let mut settled = match self.stand(move_id, &cx.deps().config).await? {
            Stand::Over(settled) => self.over(*settled, debate),
            Stand::Begun => self.go_on(debate, GraphRun::proceed, cx).await?,
            Stand::New => {
                let input = self.input(debate, cx.deps())?;
                self.go_on(debate, |it| it.input(input), cx).await?
            }
        };
        if let Some(held) = self.held_in.iter().find(|it| it.move_id == move_id) {
            (settled.backend, settled.isolated) = (held.backend.clone(), held.isolated);
        }
        if !settled.isolated {
            settled.marks.insert(Mark::NotIsolated);
        }
        let move_id = move_id.to_string();
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

    /// A debate that is over needs no sandbox any more: it was held where it was held.
    fn over(&self, mut settled: Settled, debate: Debate<'_>) -> Settled {
        match debate.held_in {
            Some(held) => {
                (settled.backend, settled.isolated) = (held.backend.clone(), held.isolated);
                settled
                    .status_updates
                    .insert(0, ready(debate.the_move, &*held.backend, held.isolated));
            }
            // The process died between its end and the run's note of it.
            None => {
                (settled.backend, settled.isolated) =
                    (self.backend().to_owned(), self.is_isolated());
            }
        }
        settled
    }

    /// Goes on with a debate in a sandbox.
    async fn go_on(
        &self,
        debate: Debate<'_>,
        from: impl FnOnce(GraphRun) -> GraphRun,
        cx: &Context<Deps>,
    ) -> Result<Settled, NodeError> {
        let the_move = debate.the_move;
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
        let (backend, isolated) = (sandboxes.backend(), sandboxes.isolated());
        let mut settled = match made {
            Ok(_) => {
                told.push(ready(the_move, backend, isolated));
                for event in &told {
                    cx.emit(event).await;
                }
                self.hold_in(sandboxes, debate, from, cx).await?
            }
            Err(error) => Settled::failed(error.to_string()),
        };
        (settled.backend, settled.isolated) = (backend.to_owned(), isolated);
        settled.status_updates.splice(0..0, told);
        Ok(settled)
    }

    /// Holds a debate in one of these sandboxes, and takes what it wrote out of it.
    async fn hold_in(
        &self,
        sandboxes: &Sandboxes,
        debate: Debate<'_>,
        from: impl FnOnce(GraphRun) -> GraphRun,
        cx: &Context<Deps>,
    ) -> Result<Settled, NodeError> {
        let (deps, the_move) = (cx.deps(), debate.the_move);
        let spec = self.spec(the_move);
        let saver = Arc::new(Watched::new(self.saver.clone()));
        let graph = from(self.run(the_move, saver.clone(), deps));
        let given = Value::Object(self.input(debate, deps)?);
        let (sender, events) = mpsc::unbounded_channel();
        let mut heed = Heed::new(&deps.config, self.traces.is_some());
        let told = move |event| {
            if heed.takes(&event) {
                drop(sender.send(event));
            }
        };
        let held = sandboxes.run_graph(spec.clone(), graph, GUESTS, told);
        let (ended, ()) = join(held, self.listen(the_move, given, events, cx)).await;
        if let Some(sandbox) = sandboxes.get(&spec.name) {
            self.fetch(the_move, &sandbox, deps.config.decision_makers.len()).await;
            // Nothing runs between two debates.
            sandbox.delete().await;
        }
        // What the run itself cannot keep is no matter of this debate's.
        if let Some(failure) = saver.failure() {
            return Err(NodeError::terminal(failure.clone()));
        }
        if let Some(failure) = deps.models.not_kept() {
            return Err(NodeError::terminal(failure.to_owned()));
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

    /// The graph of a debate, which keeps its thread here.
    fn run(&self, the_move: &Move, saver: Arc<dyn Checkpointer>, deps: &Deps) -> GraphRun {
        // One step more than a debate can have, with scores before it.
        let steps = u32::try_from(deps.config.steps_per_debate()).unwrap_or(u32::MAX - 2) + 2;
        let modes = if self.traces.is_some() { Mode::DEBUG.to_vec() } else { vec![Mode::Custom] };
        GraphRun::new(debate::GRAPH)
            .thread(the_move.move_id.to_string(), saver)
            .gate(gate::gate(deps, the_move))
            .modes(modes)
            .steps(steps)
    }

    /// What a debate begins with.
    fn input(&self, debate: Debate<'_>, deps: &Deps) -> Result<Map<String, Value>, NodeError> {
        let state = SandboxState {
            brief: Brief::new(debate.the_move, debate.findings),
            terms: terms(&deps.config, deps.models.choice(), &deps.fence, self.baseline),
            max_rounds: deps.config.rounds,
            ..SandboxState::default()
        };
        sandbox_vm::fields(&state).map_err(NodeError::terminal)
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

fn ready(the_move: &Move, backend: impl Into<String>, isolated: bool) -> PipelineEvent {
    PipelineEvent::SandboxReady {
        move_id: the_move.move_id.to_string(),
        title: the_move.draft.title.clone(),
        backend: backend.into(),
        isolated,
    }
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
