//! What goes to standard output and standard error. Whoever reads there may have read enough.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

use crate::BoxError;

/// Standard output was closed by who read it: the command ends, and nothing has failed.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub(crate) struct StdoutClosed;

/// Writes to standard output, at once.
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

/// Writes a line to standard error; where nobody listens nobody hears it.
pub(crate) fn print_error(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
