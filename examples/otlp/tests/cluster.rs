//! Tests that the spans of all workers of a cluster belong to the trace of the client that started the run.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod collector;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use graph_cluster::{Client, PostgresQueue, RunStatus, RunStore, StartRun, Worker};
use graph_core::{NodeExt, START, State, StateGraph};
use graph_store::PostgresSaver;
use graph_tests::postgres;
use opentelemetry::{
    propagation::TextMapPropagator,
    trace::{TraceContextExt, TracerProvider},
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracerProvider};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::collector::{Collector, attribute};

#[derive(State, Clone, Debug, Default)]
struct Film {
    frames: u32,
}

async fn render(_: &Film) -> FilmUpdate {
    tracing::info!("rendering");
    Film::update().frames(24)
}

/// A worker in this process.
struct RunningWorker {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl RunningWorker {
    /// Starts a worker, which serves the pool `gpu` if `renders` is true.
    async fn start(url: &str, id: &str, renders: bool) -> Self {
        let graph = StateGraph::<Film>::new().node(render.pool("gpu")).edge(START, render);
        let saver = PostgresSaver::connect(url).await.unwrap();
        let graph = graph.checkpointer(saver).compile().unwrap();
        let worker = Worker::new(RunStore::connect(url).await.unwrap()).id(id);
        let worker = worker.graph("film", graph, || ()).trace_parent(set_parent);
        let worker = if renders { worker.pool("gpu") } else { worker };
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async { drop(stopped.await) };
        let serving = tokio::spawn(async move {
            worker.serve(PostgresQueue::new(), shutdown).await.unwrap();
        });
        Self { stop, serving }
    }

    async fn stop(self) {
        drop(self.stop);
        self.serving.await.unwrap();
    }
}

/// Makes the stored trace context the parent of a worker's span.
fn set_parent(span: &Span, trace_parent: &str) {
    let carrier = HashMap::from([("traceparent".to_owned(), trace_parent.to_owned())]);
    span.set_parent(TraceContextPropagator::new().extract(&carrier)).unwrap();
}

/// Returns the trace context of a span, in the format of the HTTP header `traceparent`.
fn trace_parent(span: &Span) -> String {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove("traceparent").unwrap()
}

/// Starts a worker and a run, and then a second worker, which renders. Returns the id of the trace.
async fn run(url: &str) -> String {
    let client = Client::new(RunStore::connect(url).await.unwrap(), PostgresQueue::new());
    let planner = RunningWorker::start(url, "planner", false).await;
    let request = tracing::info_span!("request");
    let start = StartRun::new("run-1", "film", "film-1").trace_parent(trace_parent(&request));
    client.start(&start).await.unwrap();
    while client.run("run-1").await.unwrap().status != RunStatus::Running {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let renderer = RunningWorker::start(url, "renderer", true).await;
    let done = client.wait("run-1").await.unwrap();
    assert_eq!(done.outcome.values["frames"], 24, "{done:?}");
    planner.stop().await;
    renderer.stop().await;
    request.context().span().span_context().trace_id().to_string()
}

#[test]
fn spans_of_tasks_on_another_worker_belong_to_the_trace_of_the_run() {
    let Some(url) = postgres::fresh_database() else { return };
    // The HTTP client leaves the choice of the cryptography provider to the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let collector = Collector::start();
    // The exporter's HTTP client blocks, so the exporter must be created outside the runtime.
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/traces", collector.endpoint))
        .with_timeout(Duration::from_secs(120))
        .build()
        .unwrap();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let targets = Targets::new().with_default(Level::INFO).with_target("graph_core", Level::DEBUG);
    // The exporter's own requests must not create spans.
    let targets = targets.with_targets([("hyper", Level::ERROR), ("reqwest", Level::ERROR)]);
    tracing_subscriber::registry()
        .with(targets)
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("cluster")))
        .init();
    let trace = tokio::runtime::Runtime::new().unwrap().block_on(run(&url));
    provider.shutdown_with_timeout(Duration::from_secs(120)).unwrap();

    let spans = collector.spans();
    let named = |name: &'static str| spans.iter().filter(move |it| it["name"] == name);
    let leg = named("leg").next().unwrap();
    assert_eq!((attribute(leg, "worker"), &leg["traceId"]), ("planner", &Value::from(&*trace)));
    let task = named("task").next().unwrap();
    assert_eq!((attribute(task, "worker"), &task["traceId"]), ("renderer", &Value::from(&*trace)));
    // The span of the node, which contains the node's log events, is inside the span of the task.
    let is_rendering = |it: &&Value| it["events"].to_string().contains("rendering");
    let node = spans.iter().find(is_rendering).unwrap();
    assert_eq!((&node["name"], &node["traceId"]), (&Value::from("graph.task"), &task["traceId"]));
    let by_id: BTreeMap<&str, &Value> =
        spans.iter().map(|it| (it["spanId"].as_str().unwrap(), it)).collect();
    let parent = |it: &&Value| by_id.get(it["parentSpanId"].as_str()?).copied();
    let ancestors: Vec<_> = std::iter::successors(Some(node), parent).collect();
    assert!(ancestors.iter().any(|it| it["spanId"] == task["spanId"]), "{ancestors:#?}");
    // The run itself is in the same trace.
    assert_eq!(named("graph.run").next().unwrap()["traceId"], task["traceId"]);
}
