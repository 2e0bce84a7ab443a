//! Files that a debate writes to the workspace of its sandbox: the transcripts after each half of a round, and the
//! scores at the end.

use std::{collections::BTreeMap, fs, path::Path};

use app_support::{
    files::{self, FileError},
    terminal::{escape_invisible_json, strip_invisible},
};
use serde::Serialize;

use super::state::log_name;
use crate::{
    score::MakerScore,
    transcript::{ConversationEntry, escaped, format_transcript},
};

/// Directory of the transcripts, relative to the workspace.
pub(crate) const LOGS_DIR: &str = "logs";

/// File with the scores, relative to the workspace.
pub(crate) const SCORES_FILE: &str = "scores.json";

/// Returns the names of the transcripts of `makers` decision makers: `i1`, `i2`, …
pub(crate) fn log_names(makers: usize) -> Vec<String> {
    (0..makers).map(log_name).collect()
}

/// Writes all transcripts as Markdown and JSON. Blocks the calling OS thread, which is acceptable because the files are
/// small and in memory. A guest may have only one OS thread, so there may be no other thread for this work.
pub(super) fn write_logs(
    workspace: &Path,
    logs: &BTreeMap<String, Vec<ConversationEntry>>,
) -> Result<(), FileError> {
    let dir = workspace.join(LOGS_DIR);
    files::create_dir(&dir)?;
    for (name, log) in logs {
        for (extension, text) in [("md", log_markdown(log)), ("json", pretty_json(log))] {
            let path = dir.join(format!("{name}.{extension}"));
            fs::write(&path, text).map_err(FileError::at(&path))?;
        }
    }
    Ok(())
}

/// Writes the scores as JSON.
pub(super) fn write_scores(
    workspace: &Path,
    scores: &BTreeMap<String, MakerScore>,
) -> Result<(), FileError> {
    let path = workspace.join(SCORES_FILE);
    fs::write(&path, pretty_json(scores)).map_err(FileError::at(&path))
}

/// Renders a transcript as Markdown.
pub(crate) fn log_markdown(log: &[ConversationEntry]) -> String {
    strip_invisible(&format_transcript(&escaped(log))) + "\n"
}

/// Renders transcripts or scores as indented JSON.
pub(crate) fn pretty_json<T: Serialize + ?Sized>(it: &T) -> String {
    escape_invisible_json(&serde_json::to_string_pretty(it).unwrap_or_default()) + "\n"
}
