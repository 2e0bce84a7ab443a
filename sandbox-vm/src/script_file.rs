//! Executable scripts for tests.

use std::{path::Path, process::Command};

/// Writes an executable shell script.
///
/// Another process writes the file. If this process did, a program that another test starts at the same time could
/// inherit the open file, and the kernel does not execute a file that is open for writing.
pub(crate) fn write_script(path: &Path, script: &str) {
    let mut write = Command::new("sh");
    let text = format!("#!/bin/sh\n{script}\n");
    write.args(["-c", "printf %s \"$0\" > \"$1\" && chmod 755 \"$1\"", &text]).arg(path);
    assert!(write.status().unwrap().success());
}
