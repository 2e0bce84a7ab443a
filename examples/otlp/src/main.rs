//! Exports the spans of a graph to an OpenTelemetry collector over OTLP.
//!
//! Start a collector that accepts OTLP over HTTP, such as Jaeger (on port 4318). Then run:
//! `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p otlp-example`
//!
//! The spans are `graph.run`, `graph.superstep`, `graph.task` and `graph.checkpoint`. The log events that a node emits,
//! and the calls that it makes, belong to the span of the node's task.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::time::Duration;

use graph_core::{END, MemorySaver, Route, START, State, StateGraph};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::Level;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    drafts: Vec<String>,
}

async fn write(essay: &Essay) -> EssayUpdate {
    tracing::info!(draft = essay.drafts.len() + 1, "writing");
    tokio::time::sleep(Duration::from_millis(20)).await;
    Essay::update().drafts([format!("Draft {} on {}", essay.drafts.len() + 1, essay.topic)])
}

#[derive(Route)]
enum Verdict {
    #[to(write)]
    Again,
    #[to(END)]
    Good,
}

fn review(essay: &Essay) -> Verdict {
    if essay.drafts.len() < 3 { Verdict::Again } else { Verdict::Good }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Needed if TLS is enabled in the HTTP client, which leaves the choice of the cryptography provider to the program.
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The exporter reads OTEL_EXPORTER_OTLP_ENDPOINT. It must be created outside the runtime, because its HTTP
    // client blocks.
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpJson).build()?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("essay").build())
        .build();
    tracing_subscriber::registry()
        .with(Targets::new().with_default(Level::INFO).with_target("graph_core", Level::DEBUG))
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("essay")))
        .init();
    let runtime = tokio::runtime::Runtime::new()?;
    let drafts = runtime.block_on(run())?;
    println!("{drafts} drafts");
    // Sends the remaining spans. Fails if the collector is unreachable.
    provider.shutdown_with_timeout(Duration::from_secs(60))?;
    Ok(())
}

async fn run() -> Result<usize, Box<dyn std::error::Error>> {
    let graph = StateGraph::<Essay>::new()
        .node(write)
        .edge(START, write)
        .branch(write, review)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("essay-1", ());
    let exit = thread.run(Essay { topic: "Rust".into(), ..Essay::default() }).await?;
    Ok(exit.state().drafts.len())
}
