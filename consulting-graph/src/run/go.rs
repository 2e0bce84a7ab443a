//! Going on with a run, from wherever it stands to its end.

use std::sync::Arc;

use graph_core::{EventKind, Exit, Input, Mode, RunOptions, Thread};
use graph_store::sqlite::SqliteSaver;
use graph_trace::{End, Header, Trace, TraceBuilder};
use llm::{Money, RecordMode, Recording};
use sandbox_vm::{Isolation, Sandboxes};

use super::{CALLS, PIPELINE, REVIEWED, Run, RunProblem, THREADS, files, outcome};
use crate::{
    ask::Paid,
    debate::{self, Desk},
    debates::{self, Debates, Traces},
    event::{EventLog, Numbered, PipelineEvent},
    fence::Fence,
    models::{Limit, Models},
    pipeline::{self, Deps, PipelineState, Review, Reviewed},
    report::Report,
};

/// How a run is gone on with. None of it changes what it comes to.
#[derive(Debug, Clone)]
pub struct Going {
    /// So many debates at once.
    pub concurrency: usize,
    /// How much isolation is wanted.
    pub isolation: Isolation,
    /// The one back end to use, by name.
    pub backend: Option<String>,
    /// Where sandboxes run, for back ends that have several places.
    pub region: Option<String>,
    /// What the run may spend in all.
    pub limit: Limit,
    /// What to do with calls that are not in the run's recording, and with those that are.
    pub calls: RecordMode,
    /// What a person made of the moves, if the run waits for that.
    pub reviewed: Option<Reviewed>,
    /// Whether to keep what happened, step by step.
    pub traced: bool,
}

impl Default for Going {
    fn default() -> Self {
        Self {
            concurrency: 1,
            isolation: Isolation::Preferred,
            backend: None,
            region: None,
            limit: Limit::default(),
            calls: RecordMode::ReplayOrRecord,
            reviewed: None,
            traced: false,
        }
    }
}

/// Where a run stands when it does not go on by itself.
#[derive(Debug)]
pub enum Ended {
    /// At its end.
    Done {
        /// What it came to.
        report: Box<Report>,
        /// What it did, step by step: the pipeline, then the debates in the order of the moves. Empty unless it was
        /// asked for.
        traces: Vec<(String, Trace)>,
    },
    /// Before the debates, at a person's wish.
    Review(Review),
}

impl Run {
    /// Goes on to the end, and tells what happens.
    pub async fn go(
        &self,
        going: Going,
        mut tell: impl FnMut(&Numbered) + Send,
    ) -> Result<Ended, RunProblem> {
        let traces = going.traced.then(Traces::default);
        let thread = self.thread(&going, traces.clone()).await?;
        let mut log = EventLog::open(self.folder.join("events.jsonl"))?;
        let here = thread.state().await?;
        // What happened before a crash that its list of events does not know, or in the run that this one branched off
        // from.
        for event in here.iter().flat_map(|it| &it.values.status_updates) {
            if let Some(numbered) = log.tell(event.clone())? {
                tell(&numbered);
            }
        }
        let reviewed = self.reviewed(going.reviewed)?;
        let input = match (&here, reviewed) {
            (None, _) => Input::from(PipelineState {
                company_ticker: self.manifest.given.ticker.clone(),
                ..PipelineState::default()
            }),
            (Some(here), Some(reviewed)) if here.interrupts().next().is_some() => {
                Input::resume(reviewed)?
            }
            (Some(here), _) if here.is_done() => {
                return self.finish(&here.values, Vec::new());
            }
            (Some(_), _) => Input::proceed(),
        };
        let modes = if going.traced { Mode::DEBUG.to_vec() } else { vec![Mode::Custom] };
        let header = Header {
            graph: thread.graph().identity(),
            engine: graph_core::VERSION.to_owned(),
            input: thread.graph().describe(&input).unwrap_or_default(),
            then: Vec::new(),
        };
        let mut builder = TraceBuilder::new();
        builder.begin(header.input.clone());
        let mut events = thread.with(RunOptions::new().modes(modes)).stream(input);
        while let Some(event) = events.next().await {
            match event.kind {
                // Their order is that of things as they happened, which is another one each time.
                EventKind::Custom(value) => {
                    if let Ok(event) = serde_json::from_value::<PipelineEvent>(value)
                        && let Some(numbered) = log.tell(event)?
                    {
                        tell(&numbered);
                    }
                }
                _ if going.traced => builder.note(&event),
                _ => {}
            }
        }
        match events.finish().await {
            Ok(Exit::Done(state)) => {
                let mut all = Vec::new();
                if let Some(traces) = traces {
                    all.push((PIPELINE.to_owned(), builder.finish(header, End::Done)));
                    let debates = traces.all();
                    all.extend(debates.into_iter().map(|(id, it)| (id.to_string(), it)));
                }
                self.finish(&state, all)
            }
            Ok(exit) => match exit.interrupts().first() {
                Some(interrupt) => {
                    let review = serde_json::from_value(interrupt.value.clone());
                    Ok(Ended::Review(review.unwrap_or(Review { moves: Vec::new() })))
                }
                None => Err(RunProblem::NoPlace("the run stopped before its end".to_owned())),
            },
            Err(error) => {
                let message = error.to_string();
                if let Some(numbered) = log.tell(PipelineEvent::PipelineError { message })? {
                    tell(&numbered);
                }
                Err(error.into())
            }
        }
    }

    /// What a person made of the moves: kept in the run's folder, so that a replay needs nobody.
    fn reviewed(&self, given: Option<Reviewed>) -> Result<Option<Reviewed>, RunProblem> {
        let path = self.folder.join(REVIEWED);
        if let Some(reviewed) = given {
            let text = serde_json::to_string_pretty(&reviewed).unwrap_or_default();
            files::write(&path, &(text + "\n"))?;
            return Ok(Some(reviewed));
        }
        if !path.exists() {
            return Ok(None);
        }
        let reviewed = serde_json::from_str(&files::read(&path)?);
        reviewed
            .map(Some)
            .map_err(|error| RunProblem::Manifest { path, problem: error.to_string() })
    }

    /// Writes what the run came to, which is the same however often it is written.
    fn finish(
        &self,
        state: &PipelineState,
        traces: Vec<(String, Trace)>,
    ) -> Result<Ended, RunProblem> {
        let Some(outcome) = outcome(self, state) else {
            return Err(RunProblem::NoPlace("the run has no company".to_owned()));
        };
        let report = Report::new(outcome);
        files::write_all(&self.folder, state, &report)?;
        Ok(Ended::Done { report: Box::new(report), traces })
    }

    /// The pipeline's thread, with all that its nodes work with.
    pub(super) async fn thread(
        &self,
        going: &Going,
        traces: Option<Traces>,
    ) -> Result<Thread<PipelineState, Deps>, RunProblem> {
        let saver = Arc::new(self.saver()?);
        let recording = Recording::open(self.folder.join(CALLS), going.calls)?;
        let limit = self.left(going.limit, &saver).await?;
        let choice = self.manifest.given.choice.clone();
        let deps = Deps {
            config: self.config.clone(),
            data: self.manifest.given.data.clone(),
            fence: Fence::new(&self.manifest.given.nonce),
            models: Arc::new(Models::new(&self.config, choice, limit, &recording)?),
            debates: Debates {
                fallback: fallback(going).await?,
                sandboxes: sandboxes(going).await?,
                saver: saver.clone(),
                run_id: self.manifest.given.run_id.clone(),
                region: going.region.clone(),
                at_once: going.concurrency,
                baseline: self.manifest.given.baseline,
                folder: self.folder.join("logs"),
                traces,
            },
            review: self.manifest.given.review,
        };
        Ok(pipeline::graph(saver)?.thread(PIPELINE, deps))
    }

    pub(super) fn saver(&self) -> Result<SqliteSaver, RunProblem> {
        Ok(SqliteSaver::open(self.folder.join(THREADS))?)
    }

    /// What is left of a limit after what the run has paid already.
    async fn left(&self, limit: Limit, saver: &Arc<SqliteSaver>) -> Result<Limit, RunProblem> {
        if limit == Limit::default() {
            return Ok(limit);
        }
        let paid = self.paid(saver).await?;
        let tokens: u64 = paid.iter().map(|it| it.input.saturating_add(it.output)).sum();
        let nanos: u64 = paid.iter().filter_map(|it| it.cost).map(Money::nanos).sum();
        Ok(Limit {
            tokens: limit.tokens.map(|it| it.saturating_sub(tokens)),
            money: limit.money.map(|it| it.saturating_sub(Money::from_nanos(nanos))),
        })
    }

    /// All calls that the threads know of: the pipeline's own, and those of debates that it has not taken in yet.
    async fn paid(&self, saver: &Arc<SqliteSaver>) -> Result<Vec<Paid>, RunProblem> {
        let pipeline = pipeline_values(saver).await?;
        let mut paid = pipeline.calls;
        if !pipeline.conversation_logs.is_empty() {
            return Ok(paid);
        }
        let graph = debate::graph(saver.clone())?;
        for it in &pipeline.move_suggestions {
            let thread = graph.thread(it.move_id.to_string(), Desk::nobody());
            paid.extend(thread.state().await?.into_iter().flat_map(|it| it.values.calls));
        }
        Ok(paid)
    }
}

/// The fields of the pipeline's newest checkpoint that say what was paid.
pub(super) async fn pipeline_values(saver: &Arc<SqliteSaver>) -> Result<PipelineState, RunProblem> {
    use graph_core::{Checkpointer, State, checkpoint::Lookup};
    let head = saver.get(&Lookup::head(PIPELINE, "")).await.map_err(graph_core::RunError::from)?;
    let mut state = PipelineState::default();
    let names: Vec<String> = state.fields().iter().map(|it| it.name.clone().into_owned()).collect();
    for (name, value) in head.map(|it| it.values).into_iter().flatten() {
        if let Some(index) = names.iter().position(|it| *it == name) {
            let set = state.set_value(index, value);
            set.map_err(|error| RunProblem::NoPlace(error.to_string()))?;
        }
    }
    Ok(state)
}

/// Debates in this process, where isolation is only preferred.
async fn fallback(going: &Going) -> Result<Option<Sandboxes>, RunProblem> {
    if going.isolation != Isolation::Preferred {
        return Ok(None);
    }
    Ok(Some(debates::open(Isolation::Off, Some("in-process")).await?))
}

/// The strongest sandboxes there are, or the ones that were asked for.
async fn sandboxes(going: &Going) -> Result<Sandboxes, RunProblem> {
    let only = going.backend.as_deref();
    if let Some(name) = only.filter(|it| !debates::BACKENDS.contains(it)) {
        let known = debates::BACKENDS.join(", ");
        return Err(RunProblem::NoBackend(name.to_owned(), known));
    }
    Ok(debates::open(going.isolation, only).await?)
}
