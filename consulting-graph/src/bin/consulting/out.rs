//! What goes to stdout.

use std::{
    io::{ErrorKind, Write, stdout},
    path::Path,
};

use consulting_graph::fence::visible_json;
use serde::Serialize;
use serde_json::{to_string, to_string_pretty};

use crate::problem::{Problem, with};

/// Writes a JSON document to stdout, in one line or in many.
pub(crate) fn say_json(value: &impl Serialize, is_line: bool) -> Result<(), Problem> {
    let json = if is_line { to_string(value) } else { to_string_pretty(value) };
    say(&(visible_json(&json.unwrap_or_default()) + "\n"))
}

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
