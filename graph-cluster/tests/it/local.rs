//! Runs a job in this process, without a cluster, as the reference for its results and events.

use std::sync::Arc;

use graph_cluster::StartRun;
use graph_core::{Input, MemorySaver, RunOutcome};
use graph_trace::{Detail, Header, TextOptions, Trace, record_thread};
use serde_json::{Map, Value};

use crate::job::{EffectLog, graph};

/// A job as the scenarios start it.
pub(crate) struct JobSpec {
    pub(crate) rounds: u32,
    pub(crate) width: u32,
    pub(crate) pause_ms: u64,
    pub(crate) ask: bool,
}

impl JobSpec {
    /// Returns the request for this job.
    pub(crate) fn request(&self, run: &str, thread: &str) -> StartRun {
        StartRun::new(run, "job", thread)
            .input("label", run)
            .input("rounds", self.rounds)
            .input("width", self.width)
            .input("pause_ms", self.pause_ms)
            .input("ask", self.ask)
            .input("round", 0)
    }
}

/// Result of a local run.
pub(crate) struct LocalRun {
    pub(crate) values: Map<String, Value>,
    /// Node and data of each event, in order.
    pub(crate) events: Vec<(Option<String>, Value)>,
}

/// Runs a request in this process. Answers an interrupt with `yes`.
pub(crate) async fn run(request: &StartRun) -> LocalRun {
    let graph = graph(Arc::new(MemorySaver::new()), None).expect("the graph is valid");
    let thread = graph.thread(&request.thread, EffectLog::default());
    let options = thread.options().clone().stream_modes(request.stream_modes.clone());
    let thread = thread.with_options(options);
    let update = graph.update_from_json(request.input.clone()).expect("the input is valid");
    let mut input = Input::update(update);
    let mut events = Vec::new();
    loop {
        let mut stream = thread.stream(input);
        while let Some(event) = stream.next().await {
            let kind = serde_json::to_value(&event.kind).expect("events are serialisable");
            events.push((event.node.as_deref().map(str::to_owned), comparable(kind)));
        }
        match stream.finish().await.expect("the job does not fail") {
            RunOutcome::Interrupted { .. } => {
                input = Input::resume("yes").expect("a string is serialisable");
            }
            outcome => {
                let Ok(Value::Object(values)) = serde_json::to_value(outcome.state()) else {
                    panic!("the state is an object");
                };
                return LocalRun { values, events };
            }
        }
    }
}

/// Runs a request in this process, and returns its trace as text.
pub(crate) async fn trace_text(request: &StartRun) -> String {
    let graph = graph(Arc::new(MemorySaver::new()), None).expect("the graph is valid");
    let update = graph.update_from_json(request.input.clone()).expect("the input is valid");
    let thread = graph.thread(&request.thread, EffectLog::default());
    let trace = record_thread(&thread, Input::update(update)).await.trace;
    to_text(&Trace { header: Header::default(), ..trace })
}

/// Returns the text of a trace, without times.
pub(crate) fn to_text(trace: &Trace) -> String {
    trace.text(TextOptions::new(Detail::Full))
}

/// Removes the ids of interrupts, which differ from thread to thread.
pub(crate) fn comparable(mut kind: Value) -> Value {
    if let Some(interrupts) = kind.get_mut("interrupted").and_then(Value::as_array_mut) {
        for interrupt in interrupts.iter_mut().filter_map(Value::as_object_mut) {
            interrupt.remove("id");
            interrupt.remove("namespace");
        }
    }
    kind
}
