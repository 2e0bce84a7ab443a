//! Events of `tracing` on stderr.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::args::Command;

/// Lets events appear on stderr: those that `RUST_LOG` names, else a server's, and of other commands none, since they
/// tell what happens in their own way there.
pub(crate) fn start(command: &Command) {
    let usual = match command {
        Command::Serve(_) => LevelFilter::INFO,
        _ => LevelFilter::OFF,
    };
    let filter = EnvFilter::builder().with_default_directive(usual.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    // Nobody has set another one: this is the program's first step.
    subscriber.init();
}
