//! Going on with a run, from wherever it stands to its end.

use graph_core::{EventKind, Exit, Input, Mode, RunOptions, Thread, ThreadState};
use graph_trace::{End, Header, Trace, TraceBuilder};
use llm::{Llm, RecordMode};
use sandbox_vm::Isolation;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{PIPELINE, REVIEWED, Run, RunProblem, files, outcome, parts::Parts, reopen::reopen};
use crate::{
    data::Ticker,
    debates::{HeldIn, Traces},
    event::{EventLog, Numbered, PipelineEvent},
    models::Limit,
    pipeline::{Deps, PipelineState, Review, Reviewed},
    report::Report,
};

/// How a run is gone on with. Apart from a limit, none of it changes what it comes to. Limit and isolation are kept: a
/// run that is gone on with later keeps to them unless it is told others.
#[derive(Debug, Clone)]
pub struct Going {
    /// So many debates at once.
    pub concurrency: usize,
    /// How much isolation is wanted; where nothing is said, as much as was before, and at first what there is.
    pub isolation: Option<Isolation>,
    /// The one back end to use, by name.
    pub backend: Option<String>,
    /// Where sandboxes run, for back ends that have several places.
    pub region: Option<String>,
    /// What the run may spend in all, where that is another amount than it was told before.
    pub limit: Limit,
    /// What to do with calls that are not in the run's recording, and with those that are.
    pub calls: RecordMode,
    /// What a person made of the moves, if the run waits for that.
    pub reviewed: Option<Reviewed>,
    /// Who speaks for everybody, in place of the models that the run was given: one that this program does not know.
    pub speaker: Option<Llm>,
    /// Whether to keep what happened, step by step.
    pub traced: bool,
}

impl Default for Going {
    fn default() -> Self {
        Self {
            concurrency: 1,
            isolation: None,
            backend: None,
            region: None,
            limit: Limit::default(),
            calls: RecordMode::ReplayOrRecord,
            reviewed: None,
            speaker: None,
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
        /// Whether it was there before, with nothing left to do.
        was_done: bool,
        /// What it did, step by step: the pipeline, then the debates in the order of the moves. Empty unless it was
        /// asked for.
        traces: Vec<(String, Trace)>,
    },
    /// Before the debates, at a person's wish.
    Review(Review),
}

impl Run {
    /// Goes on to the end, and tells what happens. Nobody else may be at work on the run.
    pub async fn go(
        &self,
        going: Going,
        tell: impl FnMut(&Numbered) + Send,
    ) -> Result<Ended, RunProblem> {
        self.go_as(going, Vec::new(), tell).await
    }

    /// The same; a run that repeats another takes from it where the debates were held.
    pub(super) async fn go_as(
        &self,
        going: Going,
        held_in: Vec<HeldIn>,
        mut tell: impl FnMut(&Numbered) + Send,
    ) -> Result<Ended, RunProblem> {
        let _lock = self.lock()?;
        let traces = going.traced.then(Traces::default);
        let parts = self.parts(&going, traces.clone(), held_in).await?;
        let log = EventLog::open(self.folder.join("events.jsonl"))?;
        let mut teller = Teller { log, tell: &mut tell };
        let here = parts.thread.state().await?;
        // What happened before a crash that its list of events does not know, or in the run that this one branched off
        // from.
        for event in here.iter().flat_map(|it| &it.values.status_updates) {
            teller.tell(event.clone())?;
        }
        let mut input = self.input(here.as_ref(), going.reviewed)?;
        if let Some(here) = here.filter(ThreadState::is_done)
            && !reopen(&parts, &here.values).await?
        {
            let report = self.finish(here.values).await?;
            return Ok(Ended::Done { report, was_done: true, traces: Vec::new() });
        }
        let Parts { thread, models, .. } = parts;
        let modes = if going.traced { Mode::DEBUG.to_vec() } else { vec![Mode::Custom] };
        let thread = thread.with(RunOptions::new().modes(modes));
        let mut builder = TraceBuilder::new();
        loop {
            let ended = self.stream(&thread, input, &mut builder, &mut teller).await;
            if let Some(missed) = models.missed() {
                return Err(RunProblem::NotRecorded(missed.to_owned()));
            }
            let exit = match ended? {
                Exit::Done(state) => {
                    let mut all = Vec::new();
                    if let Some(traces) = traces {
                        let header = header(&thread);
                        all.push((PIPELINE.to_owned(), builder.finish(header, End::Done)));
                        let debates = traces.all();
                        all.extend(debates.into_iter().map(|(id, it)| (id.to_string(), it)));
                    }
                    let report = self.finish(state).await?;
                    return Ok(Ended::Done { report, was_done: false, traces: all });
                }
                exit => exit,
            };
            self.write_documents(&thread).await?;
            let Some(interrupt) = exit.interrupts().first() else {
                return Err(RunProblem::NoPlace("the run stopped before its end".to_owned()));
            };
            // A replay finds what a person made of the moves.
            let Some(reviewed) = self.reviewed()? else {
                let review = serde_json::from_value(interrupt.value.clone());
                return Ok(Ended::Review(review.unwrap_or(Review { moves: Vec::new() })));
            };
            input = Input::resume(reviewed)?;
        }
    }

    /// What the pipeline is given to go on from where it stands.
    fn input(
        &self,
        here: Option<&ThreadState<PipelineState>>,
        reviewed: Option<Reviewed>,
    ) -> Result<Input<PipelineState>, RunProblem> {
        let waits = here.is_some_and(|it| it.interrupts().next().is_some());
        match reviewed {
            Some(_) if !waits => return Err(RunProblem::NothingToReview),
            Some(reviewed) => self.keep_reviewed(reviewed)?,
            None => {}
        }
        let Some(_) = here else {
            return Ok(Input::from(PipelineState {
                company_ticker: self.manifest.given.ticker.clone(),
                ..PipelineState::default()
            }));
        };
        match self.reviewed()? {
            Some(reviewed) if waits => Ok(Input::resume(reviewed)?),
            _ => Ok(Input::proceed()),
        }
    }

    /// Keeps what a person made of the moves in the run's folder, so that a replay needs nobody. They are moves of this
    /// run's company, whatever the person wrote.
    fn keep_reviewed(&self, mut reviewed: Reviewed) -> Result<(), RunProblem> {
        let path = self.folder.join(REVIEWED);
        let wrong = |problem: String| RunProblem::Manifest { path: path.clone(), problem };
        let ticker = Ticker::parse(&self.manifest.given.ticker);
        let ticker = ticker.map_err(|error| wrong(error.to_string()))?;
        for it in &mut reviewed.moves {
            it.ticker.clone_from(&ticker);
        }
        let text = serde_json::to_string_pretty(&reviewed);
        let text = text.map_err(|error| wrong(error.to_string()))?;
        files::write(&path, &(text + "\n"))
    }

    /// What a person made of the moves, if anybody did.
    fn reviewed(&self) -> Result<Option<Reviewed>, RunProblem> {
        if !self.is_reviewed() {
            return Ok(None);
        }
        let path = self.folder.join(REVIEWED);
        let reviewed = serde_json::from_str(&files::read(&path)?);
        reviewed
            .map(Some)
            .map_err(|error| RunProblem::Manifest { path, problem: error.to_string() })
    }

    /// Writes what the run came to, which is the same however often it is written.
    async fn finish(&self, state: PipelineState) -> Result<Box<Report>, RunProblem> {
        let run = self.clone();
        // A hundred files, and a ranking that is made thousands of times: nothing for a runtime's thread.
        let written = spawn_blocking(move || {
            let Some(outcome) = outcome(&run, &state)? else {
                return Err(RunProblem::NoPlace("the run has no company".to_owned()));
            };
            let report = Report::new(outcome);
            files::write_all(&run.folder, &state, &report)?;
            Ok(Box::new(report))
        });
        let cut = |_| RunProblem::NoPlace("writing what the run came to was cut off".to_owned());
        written.await.map_err(cut)?
    }
}

impl Run {
    /// Runs the pipeline until it stops, and tells and notes what it does.
    async fn stream(
        &self,
        thread: &Thread<PipelineState, Deps>,
        input: Input<PipelineState>,
        builder: &mut TraceBuilder,
        teller: &mut Teller<'_>,
    ) -> Result<Exit<PipelineState>, RunProblem> {
        builder.begin(thread.graph().describe(&input).unwrap_or_default());
        let mut events = thread.stream(input);
        while let Some(event) = events.next().await {
            match event.kind {
                // Their order is that of things as they happened, which is another one each time.
                EventKind::Custom(value) => {
                    if let Ok(event) = serde_json::from_value(value) {
                        // The layer before it is over and stored.
                        if matches!(event, PipelineEvent::LayerStart { .. }) {
                            self.write_documents(thread).await?;
                        }
                        teller.tell(event)?;
                    }
                }
                _ => builder.note(&event),
            }
        }
        match events.finish().await {
            Ok(exit) => Ok(exit),
            Err(error) => {
                teller.tell(PipelineEvent::PipelineError { message: self.shown(&error) })?;
                Err(error.into())
            }
        }
    }

    /// Writes the documents that the pipeline has made so far.
    async fn write_documents(
        &self,
        thread: &Thread<PipelineState, Deps>,
    ) -> Result<(), RunProblem> {
        match thread.state().await? {
            Some(here) => files::write_documents(&self.folder, &here.values),
            None => Ok(()),
        }
    }
}

/// Tells what happens, each thing once.
struct Teller<'a> {
    log: EventLog,
    tell: &'a mut (dyn FnMut(&Numbered) + Send),
}

impl Teller<'_> {
    fn tell(&mut self, event: PipelineEvent) -> Result<(), RunProblem> {
        if let Some(numbered) = self.log.tell(event)? {
            (self.tell)(&numbered);
        }
        Ok(())
    }
}

/// The head of the pipeline's trace; what it was given is noted by who built the trace.
fn header(thread: &Thread<PipelineState, Deps>) -> Header {
    Header {
        graph: thread.graph().identity(),
        engine: graph_core::VERSION.to_owned(),
        input: Value::Null,
        then: Vec::new(),
    }
}
