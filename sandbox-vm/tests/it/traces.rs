//! A graph in a guest gives the trace that it gives in this process, and leaves its log files in the workspace.

use std::sync::Arc;

use graph_core::{MemorySaver, Mode};
use graph_trace::{Detail, End, Header, Shape, Trace, TraceBuilder};
use sandbox_vm::{
    CallError, Gate, GraphRun, Spec,
    backend::{Backend, InProcess, Jail},
    fields,
    testkit::{self, graphs},
};
use serde_json::{Value, json};

use crate::{HOSTILE, sandboxes};

/// What the debate does here, without a sandbox.
pub(crate) async fn trace_here() -> Trace {
    let graph = graphs::debate(Arc::new(MemorySaver::new())).unwrap();
    let thread = graph.thread("t", None);
    let debate = graphs::Debate { topic: "tea".into(), ..Default::default() };
    let recorded = graph_trace::record_thread(&thread, debate).await;
    assert_eq!(recorded.trace.end, End::Done);
    recorded.trace
}

/// The debate for a guest, with every event that a trace needs.
pub(crate) fn debate() -> GraphRun {
    let input = json!({ "topic": "tea", "round": 0, "turns": [], "verdict": "" });
    GraphRun::new("debate").input(fields(&input).unwrap()).modes(Mode::DEBUG).subgraphs()
}

/// Whether a trace that was put together of a guest's events is the one that the debate gives here.
#[track_caller]
pub(crate) fn assert_same(builder: TraceBuilder, here: &Trace) {
    let header = Header { then: Vec::new(), ..here.header.clone() };
    let there = builder.finish(header, End::Done).text(Shape::new(Detail::Full));
    assert_eq!(there, here.text(Shape::new(Detail::Full)));
    assert!(there.contains("I am against in round 3"), "{there}");
}

pub(crate) async fn check(backend: impl Backend + 'static, isolated: bool) {
    let here = trace_here().await;
    let (sandboxes, _folder) = sandboxes(backend).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("trace")).await.unwrap();
    assert_eq!(sandbox.isolated(), isolated);
    let gate = Gate::new(async |_: String, request: Value| {
        Ok::<_, CallError>(json!(graphs::answer(request["prompt"].as_str().unwrap_or_default())))
    });
    let mut running = sandbox.run_graph(debate().gate(gate.allow("llm.chat"))).await.unwrap();
    let mut builder = TraceBuilder::new();
    builder.begin(here.header.input.clone());
    while let Some(event) = running.next().await {
        builder.note(&event);
    }
    let exit = running.finish().await.unwrap();
    assert!(exit.is_done());
    assert_same(builder, &here);
    let log: Value = sandbox.fs().read_json("/workspace/logs/round-3.json").await.unwrap();
    assert_eq!(log, exit.state()["turns"]);
    sandbox.delete().await;
}

#[tokio::test]
async fn in_the_jail() {
    check(Jail::program(HOSTILE), true).await;
}

#[tokio::test]
async fn in_this_process() {
    check(InProcess::new(testkit::agent), false).await;
}
