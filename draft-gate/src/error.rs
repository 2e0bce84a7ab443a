//! Errors of the gate, with advice on how to fix them.

use std::{io, path::PathBuf};

/// The error returned when an operation of the gate fails.
///
/// Errors for which [`is_violation`](Self::is_violation) returns true look like attempts to bypass the gate. They are
/// logged, and their messages start with `SECURITY:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path is not a valid path of a file in the workspace.
    #[error(
        "SECURITY: path `{path}` is invalid: {fault}; use a path relative to the workspace root, such as `src/main.py`"
    )]
    InvalidPath {
        /// The rejected path, truncated and escaped.
        path: String,
        /// What is wrong with the path.
        fault: &'static str,
    },
    /// Workers may not access this file.
    #[error(
        "SECURITY: workers may not access `{path}`: {why}; leave it unchanged, or ask a person to change it"
    )]
    Protected {
        /// Path of the protected file.
        path: String,
        /// Why the file is protected.
        why: &'static str,
    },
    /// A link, mount point or special file was found where a regular file is required.
    #[error(
        "SECURITY: `{path}` is unsafe: {fault}; only regular files with a single link are supported"
    )]
    Unsafe {
        /// Path of the file or directory.
        path: String,
        /// Why it is unsafe.
        fault: &'static str,
    },
    /// The draft was not issued to this worker.
    #[error(
        "SECURITY: draft `{draft}` was not issued to `{worker}`; request one with ollama_request_draft"
    )]
    NotIssued {
        /// Path of the draft, as given by the worker.
        draft: String,
        /// Name of the worker.
        worker: String,
    },
    /// The submission contradicts the gate's record of the draft.
    #[error(
        "SECURITY: the submission has {field} `{given}`, but draft `{draft}` was issued for `{known}`; \
         submit the values that ollama_request_draft returned"
    )]
    Forged {
        /// Path of the draft.
        draft: String,
        /// Name of the field that differs.
        field: &'static str,
        /// The submitted value.
        given: String,
        /// The expected value.
        known: String,
    },
    /// The draft has already been submitted.
    #[error(
        "draft `{draft}` is already submitted and awaits a decision (see the inbox) or the rest of its change set"
    )]
    AlreadySubmitted {
        /// Path of the draft.
        draft: String,
    },
    /// The name of a task or worker is invalid.
    #[error("`{given}` is not a valid {what}: use 1 to 64 letters, digits, `_` and `-`")]
    InvalidName {
        /// The invalid name.
        given: String,
        /// Kind of name that was expected, such as `task id`.
        what: &'static str,
    },
    /// A path was given as the name of a task or worker. This is dangerous because names become parts of file names.
    #[error(
        "SECURITY: `{given}` is a path, not a {what}; use 1 to 64 letters, digits, `_` and `-`"
    )]
    PathAsName {
        /// The rejected name.
        given: String,
        /// Kind of name that was expected, such as `task id`.
        what: &'static str,
    },
    /// The file does not exist.
    #[error("file `{path}` does not exist; to propose a new file, use operation `create`")]
    Missing {
        /// Path of the file.
        path: String,
    },
    /// The worker has no rejected draft of this file.
    #[error(
        "there is no rejected draft of `{path}` in this task, or it was pruned; request the file without `restore`"
    )]
    NoRejectedDraft {
        /// Path of the file.
        path: String,
    },
    /// The draft's file was removed.
    #[error(
        "draft `{draft}` is missing from _handoff/drafts; write it again with ollama_write_draft"
    )]
    DraftMissing {
        /// Path of the draft.
        draft: String,
    },
    /// The file is not part of the change set, or the set would delete it.
    #[error(
        "change set `{set}` does not edit or create `{path}`; `draft-gate show {set}` lists its files"
    )]
    NotInSet {
        /// Id of the change set.
        set: String,
        /// Path of the file.
        path: String,
    },
    /// The file already exists.
    #[error("`{path}` already exists{what}; use operation `edit`")]
    Exists {
        /// Path of the file.
        path: String,
        /// Text after "already exists", such as a note about a different letter case.
        what: &'static str,
    },
    /// A file or draft is too large.
    #[error("`{path}` is larger than {limit} bytes; split it into smaller files")]
    TooLarge {
        /// Path of the file.
        path: String,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("`{path}` is not text (UTF-8 without NUL); only text files are supported")]
    NotText {
        /// Path of the file.
        path: String,
    },
    /// No file can be extracted from a model's text.
    #[error(
        "cannot extract files from the text: {0}; write each file as a fenced block with its path on the line of the fence"
    )]
    NoExtractableFile(&'static str),
    /// The task contract, a limit of the gate or the kind of draft does not allow the operation.
    #[error("not allowed: {reason}")]
    NotAllowed {
        /// Why the operation is not allowed, and what to do instead.
        reason: String,
    },
    /// No pending change set has this id.
    #[error("there is no pending change set `{id}`; `draft-gate pending` lists them")]
    UnknownSet {
        /// The id that was given.
        id: String,
    },
    /// There are no pending change sets.
    #[error("there are no pending change sets")]
    NoPendingSets,
    /// The ids of several change sets start with this prefix.
    #[error("{} (see `draft-gate pending`)", ambiguity(id))]
    AmbiguousSet {
        /// The prefix that was given.
        id: String,
    },
    /// The verdict refers to an outdated state of the change set.
    #[error(
        "the change set has changed since you reviewed it (fingerprint {seen}, now {now}); review it again with `draft-gate review {set}`"
    )]
    StaleReview {
        /// Id of the change set.
        set: String,
        /// Fingerprint that the verdict refers to.
        seen: String,
        /// Current fingerprint.
        now: String,
    },
    /// Another program changed the file while the change set was being applied.
    #[error(
        "`{path}` was changed by another program; nothing was applied, review the change again"
    )]
    Conflict {
        /// Path of the file.
        path: String,
    },
    /// The change set was partly applied and could not be rolled back.
    #[error(
        "change set `{set}` could not be applied ({cause}), and `{path}` could not be rolled back ({fault}); \
         the next command tries again: make the file and its directory writable and free some disk space"
    )]
    RollbackFailed {
        /// Id of the change set.
        set: String,
        /// Path of the file that still has its new content.
        path: String,
        /// Why the set could not be applied.
        cause: String,
        /// Why the file could not be rolled back.
        fault: String,
    },
    /// The accepted change set cannot be undone.
    #[error("change set `{id}` cannot be undone: {why}")]
    CannotUndo {
        /// Id of the change set.
        id: String,
        /// Why the set cannot be undone.
        why: String,
    },
    /// The log differs from what the gate wrote.
    #[error("transition.ndjson was modified: {fault}; {advice}")]
    CorruptLog {
        /// Description of the first difference.
        fault: String,
        /// How to fix it.
        advice: &'static str,
    },
    /// One of the gate's own files is corrupt.
    #[error(
        "`{file}` is corrupt: {fault}; restore it from a copy, or reject the change set that needs it"
    )]
    Corrupt {
        /// Path of the corrupt file.
        file: String,
        /// What is wrong with the file.
        fault: String,
    },
    /// The contract is invalid. Nothing is accepted until it is fixed.
    #[error("_handoff/TASK_CONTRACT.json is invalid: {0}; nothing is accepted until it is fixed")]
    InvalidContract(String),
    /// A project check could not be completed.
    #[error(
        "check `{check}` could not be completed: {why}; fix it in _handoff/TASK_CONTRACT.json \
         (programs come from /usr of this machine), or decide without it"
    )]
    CheckNotRun {
        /// Name of the check.
        check: String,
        /// Why the check could not be completed.
        why: String,
    },
    /// The directory has no gate.
    #[error(
        "`{}` has no gate; set the workspace with --workspace, or create a gate with `draft-gate serve`", path.display()
    )]
    NoGate {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The workspace cannot be opened.
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace {
        /// Path of the workspace.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The operation that failed, as a verb phrase such as `inspect`.
        action: &'static str,
        /// Path of the file or directory.
        path: String,
        /// Error from the operating system.
        source: io::Error,
    },
}

impl Error {
    /// Returns whether the error looks like an attempt to bypass the gate.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            Self::InvalidPath { .. }
                | Self::PathAsName { .. }
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

/// Makes a worker's text safe for messages by truncating it and escaping control characters.
pub(crate) fn escape_for_message(text: &str) -> String {
    let escaped: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'").replace("\\\"", "\"")
}
