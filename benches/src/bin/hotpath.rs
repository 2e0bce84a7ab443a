//! One hot path, for counting its instructions: `hotpath --list`, `hotpath NAME`.
#![expect(clippy::print_stdout, reason = "it is a program for the terminal")]

use graph_benches::engine;

const SCENARIOS: [&str; 4] = ["loop", "fan-out", "chain", "append"];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--list") => println!("{}", SCENARIOS.join("\n")),
        Some("loop") => drop(engine::run_loop(&engine::loop_graph(), 20_000).await),
        Some("fan-out") => drop(engine::run_fan_out(&engine::fan_out_graph(), 20_000).await),
        Some("chain") => drop(engine::run_chain(&engine::chain_graph(2_000)).await),
        Some("append") => drop(engine::run_append(&engine::append_graph(), 0, 20_000).await),
        other => println!("unknown scenario {other:?}; there are: {}", SCENARIOS.join(", ")),
    }
}
