//! Output, logging and signals of a program.

use std::{
    io::{self, ErrorKind, IsTerminal, Write, stderr, stdout},
    path::Path,
};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
pub use tracing_subscriber::filter::LevelFilter;

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
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    // `init` panics if a subscriber is already installed, but the programs do not install any other.
    subscriber.init();
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
