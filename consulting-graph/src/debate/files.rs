//! Files that a debate writes to the workspace of its sandbox: the transcripts after each half of a round, and the
//! scores at the end.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::state::log_name;
use crate::{
    fence::{escape_invisible_json, strip_invisible},
    score::MakerScore,
    transcript::{ConversationEntry, format_transcript},
};

/// Directory of the transcripts, relative to the workspace.
pub const LOGS_DIR: &str = "logs";

/// File with the scores, relative to the workspace.
pub const SCORES_FILE: &str = "scores.json";

/// Returns the names of the transcripts of `makers` decision makers: `i1`, `i2`, …
pub fn log_names(makers: usize) -> Vec<String> {
    (0..makers).map(log_name).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {} in the sandbox: {source}", path.display())]
pub(super) struct SandboxFileError {
    path: PathBuf,
    source: io::Error,
}

/// Writes all transcripts as Markdown and JSON. Blocks the calling OS thread, which is acceptable because the files are
/// small and in memory. A guest may have only one OS thread anyway.
pub(super) fn write_logs(
    workspace: &Path,
    logs: &BTreeMap<String, Vec<ConversationEntry>>,
) -> Result<(), SandboxFileError> {
    let dir = workspace.join(LOGS_DIR);
    let created = fs::create_dir_all(&dir);
    created.map_err(|source| SandboxFileError { path: dir.clone(), source })?;
    for (name, log) in logs {
        for (extension, text) in [("md", log_markdown(log)), ("json", pretty_json(log))] {
            write(dir.join(format!("{name}.{extension}")), &text)?;
        }
    }
    Ok(())
}

/// Writes the scores as JSON.
pub(super) fn write_scores(
    workspace: &Path,
    scores: &BTreeMap<String, MakerScore>,
) -> Result<(), SandboxFileError> {
    write(workspace.join(SCORES_FILE), &pretty_json(scores))
}

/// Renders a transcript as Markdown.
pub(crate) fn log_markdown(log: &[ConversationEntry]) -> String {
    strip_invisible(&format_transcript(log)) + "\n"
}

/// Renders transcripts or scores as indented JSON.
pub(crate) fn pretty_json<T: Serialize + ?Sized>(it: &T) -> String {
    escape_invisible_json(&serde_json::to_string_pretty(it).unwrap_or_default()) + "\n"
}

fn write(path: PathBuf, text: &str) -> Result<(), SandboxFileError> {
    fs::write(&path, text).map_err(|source| SandboxFileError { path, source })
}
