//! Output, logging and signals of a program.

use std::{
    env,
    io::{self, ErrorKind, IsTerminal, Write, stderr, stdout},
    path::Path,
};

use tokio::signal::unix::{Signal, SignalKind, signal};
pub use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::files::FileError;

/// Prints to stdout. A closed pipe is not an error, because the reader may have read enough.
pub fn print(text: &str) -> Result<(), FileError> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(FileError::at(Path::new("stdout"))(error))
        }
        _ => Ok(()),
    }
}

/// Starts logging to stderr, at `level` unless `RUST_LOG` sets other levels.
pub fn init_logging(level: LevelFilter) {
    // `Targets` needs no regular expressions, unlike `EnvFilter`, which also filters by the values of fields.
    let levels = env::var("RUST_LOG").ok().filter(|it| !it.is_empty());
    let levels = levels.and_then(|it| match it.parse::<Targets>() {
        Ok(levels) => Some(levels),
        Err(error) => {
            eprintln!(
                "RUST_LOG is ignored: {error}; an example of a valid value is `warn,llm=debug`"
            );
            None
        }
    });
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(level));
    let output = fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal());
    // `init` panics if another subscriber is already installed, but programs install no other one.
    tracing_subscriber::registry().with(output).with(levels).init();
}

/// Signals that stop a server: SIGTERM and SIGINT.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Starts to listen for the signals.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
