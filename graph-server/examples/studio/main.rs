//! Four small graphs in the studio.
//!
//! ```text
//! cargo run -p graph-server --example studio
//! ```

mod assistant;
mod research;
mod review;
mod schema;
mod trial;

use std::process::ExitCode;

use clap::Parser;
use graph_server::{DevError, DevServer, langgraph::Graphs};
use sandbox_vm::guest;
use tokio::runtime::Runtime;

/// Run four small graphs in the studio.
#[derive(Parser)]
struct Options {
    /// Port on the loopback interface; 0 chooses a free one.
    #[arg(long, default_value_t = 2024)]
    port: u16,
}

fn main() -> ExitCode {
    // In a sandbox, this program is the guest.
    guest::enter(trial::agent);
    let options = Options::parse();
    match Runtime::new().map_err(Into::into).and_then(|it| it.block_on(run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let graphs = review::add(Graphs::in_memory())?;
    let graphs = research::add(graphs)?;
    let graphs = assistant::add(graphs)?;
    let graphs = trial::add(graphs).await?;
    match DevServer::new(graphs).port(options.port).run().await {
        Err(error @ DevError::Listen { .. }) => {
            Err(format!("{error}; for this example, pass `-- --port 2025`").into())
        }
        result => Ok(result?),
    }
}
