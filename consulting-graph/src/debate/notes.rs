//! What a debate leaves in its sandbox's files, round by round.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::state::log_name;
use crate::{
    fence::{visible, visible_json},
    score::MakerScore,
    transcript::{ConversationEntry, format_transcript},
};

/// The folder of the logs, in the workspace.
pub const LOGS: &str = "logs";

/// The file of the scores, in the workspace.
pub const SCORES: &str = "scores.json";

/// The names of the logs of so many decision makers.
pub fn log_names(makers: usize) -> Vec<String> {
    (0..makers).map(log_name).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("the sandbox cannot keep {}: {source}", path.display())]
pub(super) struct NoteError {
    path: PathBuf,
    source: io::Error,
}

/// Writes the whole conversations, as data and to be read. At once and not on a thread for it: a guest may have one
/// thread and no more, and these files are short and in memory.
pub(super) fn write_logs(
    workspace: &Path,
    logs: &BTreeMap<String, Vec<ConversationEntry>>,
) -> Result<(), NoteError> {
    let folder = workspace.join(LOGS);
    let made = fs::create_dir_all(&folder);
    made.map_err(|source| NoteError { path: folder.clone(), source })?;
    for (name, log) in logs {
        for (ending, text) in [("md", log_text(log)), ("json", data(log))] {
            write(folder.join(format!("{name}.{ending}")), &text)?;
        }
    }
    Ok(())
}

/// Writes the scores.
pub(super) fn write_scores(
    workspace: &Path,
    scores: &BTreeMap<String, MakerScore>,
) -> Result<(), NoteError> {
    write(workspace.join(SCORES), &data(scores))
}

/// A conversation to be read.
pub(crate) fn log_text(log: &[ConversationEntry]) -> String {
    visible(&format_transcript(log)) + "\n"
}

/// Conversations or scores as data.
pub(crate) fn data<T: Serialize + ?Sized>(it: &T) -> String {
    visible_json(&serde_json::to_string_pretty(it).unwrap_or_default()) + "\n"
}

fn write(path: PathBuf, text: &str) -> Result<(), NoteError> {
    fs::write(&path, text).map_err(|source| NoteError { path, source })
}
