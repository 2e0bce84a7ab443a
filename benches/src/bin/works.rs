//! Executes workloads on request: `works engine` or `works by-hand`. See `protocol` for the requests.

use std::{env, io};

use graph_benches::{protocol, works};

fn main() -> io::Result<()> {
    match env::args().nth(1).as_deref() {
        Some("engine") => protocol::serve(env!("CARGO_PKG_VERSION"), works::on_engine),
        Some("by-hand") => protocol::serve("Rust and tokio", works::by_hand),
        _ => Err(io::Error::other("usage: works engine|by-hand")),
    }
}
