//! What goes to stdout.

use std::{
    io::{ErrorKind, Write, stdout},
    path::Path,
};

use crate::problem::{Problem, with};

/// Writes to stdout. Whoever reads there may have read enough: that is no failure.
pub(crate) fn say(text: &str) -> Result<(), Problem> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(with(Path::new("stdout"))(error))
        }
        _ => Ok(()),
    }
}
