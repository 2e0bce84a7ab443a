//! Input files, and errors in them.

use std::{io, path::PathBuf};

use chrono::NaiveDate;

use super::super::{company::Note, origin::Origin};

/// Maximum file size in bytes. A larger file would not fit into a prompt.
pub(super) const MAX_FILE_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    /// The file name without directories.
    pub name: String,
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is larger than {} MiB; provide an excerpt", path.display(), MAX_FILE_BYTES >> 20)]
    TooLarge { path: PathBuf },
    #[error("no .csv, .json, .md or .txt file in {}; add at least one", .0.display())]
    Empty(PathBuf),
    #[error(
        "the files contain no figures and no text up to {0}; add data to them, or choose a later date with --as-of"
    )]
    NoData(NaiveDate),
    #[error("{name}:{location}: {problem}")]
    Content { name: String, location: String, problem: String },
}

pub(super) fn note(file: &InputFile, location: &dyn ToString, text: &str) -> Note {
    Note { date: None, text: text.trim().to_owned(), origin: origin(file, location) }
}

pub(super) fn origin(file: &InputFile, location: &dyn ToString) -> Origin {
    Origin::File { name: file.name.clone(), location: location.to_string() }
}

pub(super) fn content_error(
    file: &InputFile,
    location: &dyn ToString,
    problem: impl Into<String>,
) -> FolderError {
    FolderError::Content {
        name: file.name.clone(),
        location: location.to_string(),
        problem: problem.into(),
    }
}
