//! What goes to standard output and standard error. Whoever reads there may have read enough.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

use crate::Problem;

/// Standard output was closed by who read it: the command ends, and nothing has failed.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub(crate) struct ReaderGone;

/// Writes to standard output, at once.
pub(crate) fn say(text: impl Display) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(format!("cannot write to standard output: {error}").into()),
    }
}

/// Writes a line to standard output.
pub(crate) fn say_line(text: impl Display) -> Result<(), Problem> {
    say(format_args!("{text}\n"))
}

/// Writes a line to standard error; where nobody listens nobody hears it.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
