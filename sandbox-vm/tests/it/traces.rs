//! A graph in a guest gives the trace that it gives in this process.

use std::sync::Arc;

use graph_core::{MemorySaver, Mode};
use graph_trace::{Detail, End, Shape, Trace, TraceBuilder};
use sandbox_vm::{
    CallError, Gate, GraphRun, Sandboxes, Spec,
    backend::{Backend, InProcess, Jail},
    fields,
    testkit::{self, graphs},
};
use serde_json::{Value, json};

use crate::HOSTILE;

/// What the debate does here, without a sandbox.
async fn trace_here() -> (Trace, graph_trace::Header) {
    let graph = graphs::debate(Arc::new(MemorySaver::new())).unwrap();
    let thread = graph.thread("t", None);
    let debate = graphs::Debate { topic: "tea".into(), ..Default::default() };
    let recorded = graph_trace::record_thread(&thread, debate).await;
    assert_eq!(recorded.trace.end, End::Done);
    (recorded.trace.clone(), recorded.trace.header)
}

async fn check(backend: impl Backend + 'static, isolated: bool) {
    let (here, header) = trace_here().await;
    let state = tempfile::tempdir().unwrap();
    let isolation = sandbox_vm::Isolation::Preferred;
    let opening = Sandboxes::new().backend(backend).isolation(isolation);
    let sandboxes = opening.state_folder(state.path().join("state")).open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("trace")).await.unwrap();
    assert_eq!(sandbox.isolated(), isolated);
    let gate = Gate::new(async |_: String, request: Value| {
        Ok::<_, CallError>(json!(graphs::answer(request["prompt"].as_str().unwrap_or_default())))
    });
    let input = json!({ "topic": "tea", "round": 0, "turns": [], "verdict": "" });
    let run = GraphRun::new("debate").input(fields(&input).unwrap()).gate(gate.allow("llm.chat"));
    let mut running = sandbox.run_graph(run.modes(Mode::DEBUG).subgraphs()).await.unwrap();
    let mut builder = TraceBuilder::new();
    builder.begin(header.input.clone());
    while let Some(event) = running.next().await {
        builder.note(&event);
    }
    let exit = running.finish().await.unwrap();
    assert!(exit.is_done());
    let there = builder.finish(header, End::Done);
    let shape = || Shape::new(Detail::Full);
    assert_eq!(there.text(shape()), here.text(shape()));
    assert!(there.text(shape()).contains("I am against in round 3"));
}

#[tokio::test]
async fn in_the_jail() {
    check(Jail::program(HOSTILE), true).await;
}

#[tokio::test]
async fn in_this_process() {
    check(InProcess::new(testkit::agent), false).await;
}
