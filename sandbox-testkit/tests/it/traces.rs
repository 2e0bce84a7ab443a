//! Tests that a graph in a guest produces the same trace as in this process, and writes its logs to the workspace.

use std::sync::Arc;

use graph_core::{MemorySaver, StreamMode};
use graph_trace::{Detail, Header, RunStatus, TextOptions, Trace, TraceBuilder};
use sandbox_testkit::graphs;
use sandbox_vm::{
    CallError, CallPolicy, GraphRun, Spec,
    backend::{Backend, InProcess, Jail},
    input_fields,
};
use serde_json::{Value, json};

use crate::{HOSTILE, sandboxes};

/// Returns the trace of the debate in this process, without a sandbox.
pub(crate) async fn reference_trace() -> Trace {
    let graph = graphs::debate(Arc::new(MemorySaver::new())).unwrap();
    let thread = graph.thread("t", None);
    let debate = graphs::Debate { topic: "tea".into(), ..Default::default() };
    let recorded = graph_trace::record_thread(&thread, debate).await;
    assert_eq!(recorded.trace.end, RunStatus::Done);
    recorded.trace
}

/// Returns a run of the debate that streams every event that a trace needs.
pub(crate) fn debate() -> GraphRun {
    let input = json!({ "topic": "tea", "round": 0, "turns": [], "verdict": "" });
    GraphRun::new("debate")
        .input(input_fields(&input).unwrap())
        .stream_modes(StreamMode::DEBUG)
        .subgraphs()
}

/// Asserts that a trace built from a guest's events equals the reference trace.
#[track_caller]
pub(crate) fn assert_same(builder: TraceBuilder, expected: &Trace) {
    let header = Header { later_inputs: Vec::new(), ..expected.header.clone() };
    let actual = builder.finish(header, RunStatus::Done).text(TextOptions::new(Detail::Full));
    assert_eq!(actual, expected.text(TextOptions::new(Detail::Full)));
    assert!(actual.contains("I am against in round 3"), "{actual}");
}

pub(crate) async fn check(backend: impl Backend + 'static, isolated: bool) {
    let expected = reference_trace().await;
    let (sandboxes, _dir) = sandboxes(backend).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("trace")).await.unwrap();
    assert_eq!(sandbox.isolated(), isolated);
    let policy = CallPolicy::new(async |_: String, request: Value| {
        Ok::<_, CallError>(json!(graphs::answer(request["prompt"].as_str().unwrap_or_default())))
    });
    let mut running =
        sandbox.run_graph(debate().call_policy(policy.allow("llm.chat"))).await.unwrap();
    let mut builder = TraceBuilder::new();
    builder.begin_run(expected.header.input.clone());
    while let Some(event) = running.next().await {
        builder.add_event(&event);
    }
    let exit = running.finish().await.unwrap();
    assert!(exit.is_done());
    assert_same(builder, &expected);
    let log: Value = sandbox.fs().read_json("/workspace/logs/round-3.json").await.unwrap();
    assert_eq!(log, exit.state()["turns"]);
    sandbox.delete().await;
}

#[tokio::test]
async fn jail_trace_matches_in_process_trace() {
    check(Jail::program(HOSTILE), true).await;
}

#[tokio::test]
async fn in_process_backend_trace_matches() {
    check(InProcess::new(sandbox_testkit::agent), false).await;
}
