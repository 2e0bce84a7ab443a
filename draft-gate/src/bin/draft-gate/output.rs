//! Writes to standard output and standard error.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

/// An error that ends a command.
pub(crate) type BoxError = Box<dyn std::error::Error>;

/// The error returned when the reader of standard output has closed the pipe. It ends the command without an error
/// message.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct StdoutClosed;

/// Writes to standard output and flushes it.
pub(crate) fn print(text: impl Display) -> Result<(), BoxError> {
    let mut output = io::stdout().lock();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        Err(error) => Err(format!("cannot write to standard output: {error}").into()),
    }
}

/// Writes a line to standard output.
pub(crate) fn print_line(text: impl Display) -> Result<(), BoxError> {
    print(format_args!("{text}\n"))
}

/// Writes a line to standard error. Write errors are ignored.
pub(crate) fn print_error(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
