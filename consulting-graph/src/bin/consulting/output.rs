//! Output to stdout and stderr.

use std::io::{self, Write, stderr};

use app_support::{program::print, terminal::escape_invisible_json};
use serde::Serialize;
use serde_json::{to_string, to_string_pretty};

use crate::error::CliError;

/// Prints a JSON document, on one line or indented.
pub(crate) fn print_json(value: &impl Serialize, compact: bool) -> Result<(), CliError> {
    let json = if compact { to_string(value) } else { to_string_pretty(value) };
    Ok(print(&(escape_invisible_json(&json.unwrap_or_default()) + "\n"))?)
}

/// Writes text to stderr and flushes it.
pub(crate) fn write_stderr(text: &str) -> io::Result<()> {
    let mut stderr = stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}
