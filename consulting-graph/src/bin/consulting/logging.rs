//! Logging to stderr.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::args::Command;

/// Installs the logger. `RUST_LOG` sets the log levels. By default, the server logs at level `info`, and other commands
/// log nothing, because they report their progress themselves.
pub(crate) fn init(command: &Command) {
    let default_level = match command {
        Command::Serve(_) => LevelFilter::INFO,
        _ => LevelFilter::OFF,
    };
    let filter = EnvFilter::builder().with_default_directive(default_level.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    // This does not panic, because no other subscriber was installed before.
    subscriber.init();
}
