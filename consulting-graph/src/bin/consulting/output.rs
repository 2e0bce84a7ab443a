//! Output to stdout.

use std::{
    io::{ErrorKind, Write, stdout},
    path::Path,
};

use consulting_graph::fence::escape_invisible_json;
use serde::Serialize;
use serde_json::{to_string, to_string_pretty};

use crate::error::{CliError, io_error};

/// Prints a JSON document, on one line or indented.
pub(crate) fn print_json(value: &impl Serialize, compact: bool) -> Result<(), CliError> {
    let json = if compact { to_string(value) } else { to_string_pretty(value) };
    print(&(escape_invisible_json(&json.unwrap_or_default()) + "\n"))
}

/// Prints to stdout. A closed pipe is not an error, because the reader may have read enough.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(io_error(Path::new("stdout"))(error))
        }
        _ => Ok(()),
    }
}
