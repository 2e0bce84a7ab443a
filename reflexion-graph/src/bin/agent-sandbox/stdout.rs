//! Output to stdout.

use std::{
    io::{ErrorKind, Write, stdout},
    path::Path,
};

use crate::error::{CliError, file_error};

/// Writes to stdout. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(file_error(Path::new("stdout"))(error))
        }
        _ => Ok(()),
    }
}
