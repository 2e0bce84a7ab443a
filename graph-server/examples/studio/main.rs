//! Three small graphs in the studio.
//!
//! ```text
//! cargo run -p graph-server --example studio
//! ```

mod assistant;
mod research;
mod review;
mod schema;

use std::process::ExitCode;

use clap::Parser;
use graph_server::{DevError, DevServer, langgraph::Graphs};

/// Run three small graphs in the studio.
#[derive(Parser)]
struct Options {
    /// Port on the loopback interface; 0 chooses a free one.
    #[arg(long, default_value_t = 2024)]
    port: u16,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
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
    match DevServer::new(graphs).port(options.port).run().await {
        Err(error @ DevError::Listen { .. }) => {
            Err(format!("{error}; in this example: `-- --port 2025`").into())
        }
        result => Ok(result?),
    }
}
