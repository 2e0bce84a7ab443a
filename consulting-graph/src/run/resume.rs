//! Executes a run from its last checkpoint to its end.

use app_support::{files, lock::DirLock};
use graph_core::{
    EventKind, Input, RunOptions, RunOutcome as GraphOutcome, StreamMode, Thread, ThreadState,
};
use graph_trace::{Header, RunStatus, Trace, TraceBuilder};
use llm::RecordMode;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    error::RunError,
    options::ResumeOptions,
    outcome::collect_outcome,
    resources::RunResources,
    result_files,
    run_dir::{CLUSTER_FILE, REVIEWED_FILE, Run},
    threads::unfinished_debates,
};
use crate::{
    data::Ticker,
    debate_host::IsolationRecord,
    event::{EventLog, NumberedEvent, PipelineEvent},
    pipeline::{Deps, PipelineState, ReviewDecision, ReviewRequest},
    report::Report,
};

/// Outcome of an execution that did not fail.
#[derive(Debug)]
pub enum RunOutcome {
    Complete {
        report: Box<Report>,
        /// Whether the run was already complete and there was nothing left to do.
        was_complete: bool,
        /// Trace of the pipeline and of the debates inside it. `None` unless requested.
        trace: Option<Box<Trace>>,
    },
    /// The run is waiting for a person to review the moves.
    AwaitingReview(ReviewRequest),
}

impl Run {
    /// Executes the run until it completes or waits for a review, and calls `on_event` for every new event. Fails if
    /// another process is executing the run.
    pub async fn resume(
        &self,
        options: ResumeOptions,
        on_event: impl FnMut(&NumberedEvent) + Send,
    ) -> Result<RunOutcome, RunError> {
        self.resume_with_isolation(options, Vec::new(), on_event).await
    }

    /// Like [`resume`](Self::resume), but reports `recorded_isolation` as the isolation of the debates. Replays pass
    /// the records of the original run.
    pub(super) async fn resume_with_isolation(
        &self,
        options: ResumeOptions,
        recorded_isolation: Vec<IsolationRecord>,
        mut on_event: impl FnMut(&NumberedEvent) + Send,
    ) -> Result<RunOutcome, RunError> {
        if self.dir.join(CLUSTER_FILE).exists() {
            return Err(RunError::OnCluster(self.dir.clone()));
        }
        let _lock = DirLock::exclusive(&self.dir)?;
        let resources = self.open_resources(&options, recorded_isolation).await?;
        let log = EventLog::open(self.dir.join("events.jsonl"))?;
        let mut recorder = EventRecorder { log, on_event: &mut on_event };
        let head = resources.thread.state().await?;
        // Log the events in the state that are missing from the event log, because they were lost in a crash or come
        // from the origin of a fork.
        for event in head.iter().flat_map(|it| &it.values.status_updates) {
            recorder.record(event.clone())?;
        }
        // If the run is waiting and the decision is known, failed parts are not retried, because the decision is about
        // the moves that the reviewer saw.
        let is_decided = options.review.is_some() || self.is_reviewed();
        let mut input = self.input(head.as_ref(), options.review)?;
        if let Some(head) = head {
            let is_waiting = !head.interrupts().is_empty();
            if options.calls != RecordMode::Replay
                && !(is_waiting && is_decided)
                && self.has_retryable_failures(&head.values, resources.limit_raised)
            {
                self.rewind_failures(&resources, &head.values).await?;
                input = Input::proceed();
            } else if head.is_done() {
                let report = self.write_results(head.values).await?;
                return Ok(RunOutcome::Complete { report, was_complete: true, trace: None });
            }
        }
        let RunResources { thread, models, debates, .. } = resources;
        let modes =
            if options.trace { StreamMode::DEBUG.to_vec() } else { vec![StreamMode::Custom] };
        let thread = thread.with_options(RunOptions::new().stream_modes(modes).subgraphs());
        debates.set_unfinished(unfinished_debates(&thread).await?).await;
        let mut builder = TraceBuilder::new();
        loop {
            let result = self.run_pipeline(&thread, input, &mut builder, &mut recorder).await;
            if let Some(unrecorded_call) = models.unrecorded_call() {
                return Err(RunError::IncompleteRecording(unrecorded_call.to_owned()));
            }
            let exit = match result? {
                GraphOutcome::Done(state) => {
                    let trace = options
                        .trace
                        .then(|| Box::new(builder.finish(trace_header(&thread), RunStatus::Done)));
                    let report = self.write_results(state).await?;
                    return Ok(RunOutcome::Complete { report, was_complete: false, trace });
                }
                exit => exit,
            };
            self.write_documents(&thread).await?;
            let Some(interrupt) = exit.interrupts().first() else {
                return Err(RunError::Internal("the pipeline stopped before its end".to_owned()));
            };
            // A replay reads the reviewer's decision that was copied from the original run, so it does not wait here.
            let Some(review) = self.stored_review()? else {
                let review = serde_json::from_value(interrupt.value.clone());
                return Ok(RunOutcome::AwaitingReview(
                    review.unwrap_or(ReviewRequest { moves: Vec::new() }),
                ));
            };
            input = Input::resume(review)?;
        }
    }

    /// Stores the review decision, if there is one. Returns the input with which the pipeline continues from its
    /// current state.
    fn input(
        &self,
        head: Option<&ThreadState<PipelineState>>,
        review: Option<ReviewDecision>,
    ) -> Result<Input<PipelineState>, RunError> {
        let is_waiting = head.is_some_and(|it| !it.interrupts().is_empty());
        match review {
            Some(_) if !is_waiting => return Err(RunError::NotAwaitingReview),
            Some(review) => self.store_review(review)?,
            None => {}
        }
        if head.is_none() {
            let company_ticker = self.manifest.run_config.ticker.clone();
            return Ok(Input::from(PipelineState { company_ticker, ..PipelineState::default() }));
        }
        match self.stored_review()? {
            Some(review) if is_waiting => Ok(Input::resume(review)?),
            _ => Ok(Input::proceed()),
        }
    }

    /// Stores the reviewer's decision in the run directory, so that a replay does not need the reviewer. Sets the
    /// ticker of every move to the ticker of this run and ignores the reviewer's value.
    pub(super) fn store_review(&self, mut review: ReviewDecision) -> Result<(), RunError> {
        let path = self.dir.join(REVIEWED_FILE);
        let invalid = |problem: String| RunError::InvalidFile { path: path.clone(), problem };
        let ticker = Ticker::parse(&self.manifest.run_config.ticker);
        let ticker = ticker.map_err(|error| invalid(error.to_string()))?;
        for it in &mut review.moves {
            it.ticker.clone_from(&ticker);
        }
        let text = serde_json::to_string_pretty(&review);
        let text = text.map_err(|error| invalid(error.to_string()))?;
        Ok(files::write_synced(&path, &(text + "\n"))?)
    }

    pub(super) fn stored_review(&self) -> Result<Option<ReviewDecision>, RunError> {
        if !self.is_reviewed() {
            return Ok(None);
        }
        let path = self.dir.join(REVIEWED_FILE);
        let review = serde_json::from_str(&files::read(&path)?);
        review.map(Some).map_err(|error| RunError::InvalidFile { path, problem: error.to_string() })
    }

    /// Writes the result files, and stores in the manifest how the debates were isolated. Calling this function again
    /// writes the same files.
    pub(super) async fn write_results(
        &self,
        state: PipelineState,
    ) -> Result<Box<Report>, RunError> {
        let run = self.clone();
        // This closure writes about a hundred files and computes thousands of rankings, so it runs on a blocking
        // thread.
        let written = spawn_blocking(move || {
            let Some(outcome) = collect_outcome(&run, &state)? else {
                return Err(RunError::Internal("the run has no company data".to_owned()));
            };
            let report = Report::new(outcome);
            result_files::write_results(&run.dir, &state, &report)?;
            run.store_used_isolation(report.outcome.isolation.level)?;
            Ok(Box::new(report))
        });
        let aborted = |_| RunError::Internal("writing the results was aborted".to_owned());
        written.await.map_err(aborted)?
    }
}

impl Run {
    /// Executes the pipeline until it stops, logs its events and builds the trace.
    async fn run_pipeline(
        &self,
        thread: &Thread<PipelineState, Deps>,
        input: Input<PipelineState>,
        builder: &mut TraceBuilder,
        recorder: &mut EventRecorder<'_>,
    ) -> Result<GraphOutcome<PipelineState>, RunError> {
        builder.begin_run(thread.graph().input_to_json(&input).unwrap_or_default());
        let mut events = thread.stream(input);
        while let Some(event) = events.next().await {
            match event.kind {
                // Custom events are not part of the trace, because their order varies from run to run.
                EventKind::Custom(value) => {
                    if let Ok(event) = serde_json::from_value(value) {
                        // When a layer starts, the previous layer is complete and its state is stored.
                        if matches!(event, PipelineEvent::LayerStart { .. }) {
                            self.write_documents(thread).await?;
                        }
                        recorder.record(event)?;
                    }
                }
                _ => builder.add_event(&event),
            }
        }
        match events.finish().await {
            Ok(exit) => Ok(exit),
            Err(error) => {
                let error = RunError::from(error);
                recorder
                    .record(PipelineEvent::PipelineError { message: self.redact_paths(&error) })?;
                Err(error)
            }
        }
    }

    /// Writes the documents that exist so far.
    async fn write_documents(&self, thread: &Thread<PipelineState, Deps>) -> Result<(), RunError> {
        match thread.state().await? {
            Some(head) => Ok(result_files::write_documents(&self.dir, &head.values)?),
            None => Ok(()),
        }
    }
}

/// Logs events and reports the new ones to the caller.
pub(super) struct EventRecorder<'a> {
    pub(super) log: EventLog,
    pub(super) on_event: &'a mut (dyn FnMut(&NumberedEvent) + Send),
}

impl EventRecorder<'_> {
    pub(super) fn record(&mut self, event: PipelineEvent) -> Result<(), RunError> {
        if let Some(numbered) = self.log.append(event)? {
            (self.on_event)(&numbered);
        }
        Ok(())
    }
}

/// Returns the header of the pipeline's trace. The builder adds the input.
fn trace_header(thread: &Thread<PipelineState, Deps>) -> Header {
    Header {
        graph: thread.graph().fingerprint(),
        engine: graph_core::VERSION.to_owned(),
        input: Value::Null,
        later_inputs: Vec::new(),
    }
}
