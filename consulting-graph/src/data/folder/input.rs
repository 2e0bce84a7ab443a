//! Input files, and errors in them.

use std::{io, path::PathBuf};

use super::super::{company::Note, origin::Origin};

/// Maximum file size in bytes. A larger file would not fit into a prompt.
pub(super) const MAX_FILE_BYTES: u64 = 4 << 20;

/// Name and content of an input file.
#[derive(Debug, Clone)]
pub struct InputFile {
    /// The file name without directories.
    pub name: String,
    /// The content.
    pub text: String,
}

/// Error returned if the user's files cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file or the directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is too large.
    #[error("{} is larger than {} MiB; provide an excerpt", path.display(), MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The directory has no input files; the field is the directory.
    #[error("no .csv, .json, .md or .txt file in {}; add at least one", .0.display())]
    Empty(PathBuf),
    /// The content of a file is invalid.
    #[error("{name}:{location}: {problem}")]
    Content {
        /// The file.
        name: String,
        /// The line number, or the path to a JSON value.
        location: String,
        /// The error and how to correct it.
        problem: String,
    },
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
