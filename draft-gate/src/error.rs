//! Errors of the gate, with advice on how to fix them.

use std::{fmt, io, path::PathBuf};

/// The error returned when an operation of the gate fails.
///
/// Errors for which [`is_violation`](Self::is_violation) returns true look like attempts to bypass the gate. They are
/// logged, and their messages start with `SECURITY:`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "SECURITY: path `{path}` is invalid: {fault}; use a path relative to the workspace root, such as `src/main.py`"
    )]
    InvalidPath {
        /// The rejected path, truncated and escaped.
        path: String,
        fault: &'static str,
    },
    #[error(
        "SECURITY: workers may not access `{path}`: {why}; leave it unchanged, or ask a person to change it"
    )]
    Protected { path: String, why: &'static str },
    #[error(
        "SECURITY: `{path}` is unsafe: {fault}; only regular files with a single link are supported"
    )]
    Unsafe { path: String, fault: &'static str },
    #[error(
        "SECURITY: draft `{draft}` was not issued to `{worker}`; request one with ollama_request_draft"
    )]
    NotIssued {
        /// Path of the draft, as given by the worker.
        draft: String,
        worker: String,
    },
    #[error(
        "SECURITY: the submission has {field} `{given}`, but draft `{draft}` was issued for `{known}`; \
         submit the values that ollama_request_draft returned"
    )]
    Forged { draft: String, field: &'static str, given: String, known: String },
    #[error(
        "draft `{draft}` is already submitted and awaits a decision (see the inbox) or the rest of its change set"
    )]
    AlreadySubmitted { draft: String },
    #[error("`{given}` is not a valid {what}: use 1 to 64 letters, digits, `_` and `-`")]
    InvalidName {
        given: String,
        /// Kind of name that was expected, such as `task id`.
        what: &'static str,
    },
    /// A path was given as the name of a task or worker. This is dangerous because names become parts of file names.
    #[error(
        "SECURITY: `{given}` is a path, not a {what}; use 1 to 64 letters, digits, `_` and `-`"
    )]
    PathAsName {
        given: String,
        /// Kind of name that was expected, such as `task id`.
        what: &'static str,
    },
    #[error(
        "SECURITY: the {what} contains what looks like a secret, and it would appear in logs and messages; \
         choose another {what}"
    )]
    SecretInName {
        /// Kind of name, such as `task id`.
        what: &'static str,
    },
    #[error("file `{path}` does not exist; to propose a new file, use operation `create`")]
    Missing { path: String },
    #[error(
        "there is no rejected draft of `{path}` in this task, or it was pruned; request the file without `restore`"
    )]
    NoRejectedDraft { path: String },
    #[error(
        "draft `{draft}` is missing from _handoff/drafts; write it again with ollama_write_draft"
    )]
    DraftMissing { draft: String },
    /// The file is not part of the change set, or the set would delete it.
    #[error(
        "change set `{set}` does not edit or create `{path}`; `draft-gate show {set}` lists its files"
    )]
    NotInSet { set: String, path: String },
    #[error("`{path}` already exists; use operation `edit`")]
    Exists { path: String },
    /// On some systems, both names are the same file. People cannot distinguish them either.
    #[error(
        "`{path}` differs from the existing `{existing}` only in letter case or in characters that look the same; \
         to change the existing file or to add a file to the existing directory, spell it `{existing}`; \
         otherwise choose another name"
    )]
    NameCollision { path: String, existing: String },
    #[error("`{path}` is larger than {limit} bytes; split it into smaller files")]
    TooLarge { path: String, limit: u64 },
    #[error("`{path}` is not text (UTF-8 without NUL); only text files are supported")]
    NotText { path: String },
    #[error(
        "cannot extract files from the text: {0}; write each file as a fenced block with its path on the line of the fence"
    )]
    NoExtractableFile(&'static str),
    #[error("not allowed: {reason}")]
    NotAllowed { reason: String },
    #[error("there is no pending change set `{id}`; `draft-gate pending` lists them")]
    UnknownSet { id: String },
    #[error("there are no pending change sets")]
    NoPendingSets,
    #[error("{} (see `draft-gate pending`)", ambiguity(id))]
    AmbiguousSet { id: String },
    #[error(
        "the change set has changed since you reviewed it (fingerprint {seen}, now {now}); review it again with `draft-gate review {set}`"
    )]
    StaleReview {
        set: String,
        /// Fingerprint that the verdict refers to.
        seen: String,
        now: String,
    },
    #[error(
        "`{path}` was changed by another program, so nothing was applied; review the change again"
    )]
    Conflict { path: String },
    #[error(
        "change set `{set}` could not be applied ({cause}), and `{path}` could not be rolled back ({fault}); \
         the next command tries again: make the file and its directory writable and free some disk space"
    )]
    RollbackFailed {
        set: String,
        /// Path of the file that still has its new content.
        path: String,
        cause: String,
        fault: String,
    },
    #[error("change set `{id}` cannot be undone: {why}")]
    CannotUndo { id: String, why: String },
    #[error("transition.ndjson was modified: {fault}; {advice}")]
    CorruptLog { fault: String, advice: &'static str },
    #[error(
        "`{file}` is corrupt: {fault}; restore it from a copy, or reject the change set that needs it"
    )]
    Corrupt { file: String, fault: String },
    #[error("_handoff/TASK_CONTRACT.json is invalid: {0}; nothing is accepted until it is fixed")]
    InvalidContract(String),
    #[error(
        "check `{check}` could not be completed: {why}; fix it in _handoff/TASK_CONTRACT.json \
         (programs come from /usr of this machine), or decide without it"
    )]
    CheckNotRun { check: String, why: String },
    #[error(
        "`{}` has no gate; set the workspace with --workspace, or create a gate with `draft-gate serve`", path.display()
    )]
    NoGate { path: PathBuf },
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace { path: PathBuf, source: io::Error },
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The operation that failed, as a verb phrase such as `inspect`.
        action: &'static str,
        path: String,
        source: io::Error,
    },
}

/// A `main` that returns an error prints its `Debug` form, so this is the form that users see. The message contains the
/// text of the cause.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns whether the error looks like an attempt to bypass the gate.
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            Self::InvalidPath { .. }
                | Self::PathAsName { .. }
                | Self::SecretInName { .. }
                | Self::Protected { .. }
                | Self::Unsafe { .. }
                | Self::NotIssued { .. }
                | Self::Forged { .. }
        )
    }
}

fn ambiguity(start: &str) -> String {
    match start {
        "" => "several change sets are pending; name one of them".to_owned(),
        _ => format!("several ids start with `{start}`; give more digits"),
    }
}
