//! Runs one hot path, so that its instructions can be counted: `hotpath --list`, `hotpath NAME`.
#![expect(clippy::print_stdout, reason = "prints the list of scenarios to stdout")]

use std::{hint::black_box, process::ExitCode};

use graph_benches::{
    eager::{self, Latencies, Mode},
    engine::{self, Log},
    measure::Stopwatch,
    workloads,
};

const SCENARIOS: [&str; 9] = [
    "loop", "fan-out", "chain", "append", "checkpointed-loop", "json-loop", "branches",
    "eager-branches", "agent",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let result = match name.as_str() {
        "--list" => {
            println!("{}", SCENARIOS.join("\n"));
            return ExitCode::SUCCESS;
        }
        "loop" => engine::run_loop(&engine::loop_graph(), 20_000).await,
        "fan-out" => engine::run_fan_out(&engine::fan_out_graph(), 20_000).await,
        "chain" => engine::run_chain(&engine::chain_graph(2_000)).await,
        "append" => {
            let graph = engine::append_graph(Stopwatch::default());
            engine::run_append(&graph, Log::filled(0, 20_000)).await as u64
        }
        "checkpointed-loop" => {
            engine::run_checkpointed_loop(&engine::checkpointed_loop_graph(), 5_000).await
        }
        "json-loop" => engine::run_json_loop(&engine::json_loop_graph(), 20_000).await,
        "branches" => run_branches(Mode::Ordinary).await,
        "eager-branches" => run_branches(Mode::Eager).await,
        "agent" => workloads::run_agent(25, 20).await,
        _ => {
            eprintln!("error: unknown scenario `{name}`; available: {}", SCENARIOS.join(", "));
            return ExitCode::from(2);
        }
    };
    black_box(result);
    ExitCode::SUCCESS
}

/// Runs ten branches of ten steps several times, so that the construction of the graph has little weight.
async fn run_branches(mode: Mode) -> u64 {
    let graph = eager::graph(mode);
    let mut tasks = 0;
    for _ in 0..100 {
        tasks += eager::run(&graph, Latencies::default()).await;
    }
    tasks
}
