//! Errors of the gate, with advice.

use std::{io, path::PathBuf};

/// An error of the gate.
///
/// Errors for which [`is_violation`](Self::is_violation) holds look like attempts to bypass the gate. They are
/// logged, and their messages start with `SECURITY:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not name a file of the workspace.
    #[error(
        "SECURITY: path `{path}` is invalid: {fault}; use a path relative to the workspace root, such as `src/main.py`"
    )]
    InvalidPath {
        /// The given path, truncated and escaped.
        path: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Workers may not access this file.
    #[error(
        "SECURITY: workers may not access `{path}`: {why}; leave it unchanged, or ask a person to change it"
    )]
    Protected {
        /// The file.
        path: String,
        /// Why it is protected.
        why: &'static str,
    },
    /// A link, mount point or special file where a regular file is required.
    #[error(
        "SECURITY: `{path}` is unsafe: {fault}; only regular files with a single link are supported"
    )]
    Unsafe {
        /// The file or directory.
        path: String,
        /// Why it is unsafe.
        fault: &'static str,
    },
    /// The draft was not issued to this worker.
    #[error(
        "SECURITY: draft `{draft}` was not issued to `{worker}`; request one with ollama_request_draft"
    )]
    NotIssued {
        /// The given path.
        draft: String,
        /// The worker.
        worker: String,
    },
    /// The submission contradicts what the gate knows about the draft.
    #[error(
        "SECURITY: the submission has {field} `{given}`, but draft `{draft}` was issued for `{known}`; \
         submit the values that ollama_request_draft returned"
    )]
    Forged {
        /// The draft.
        draft: String,
        /// The field that differs.
        field: &'static str,
        /// The submitted value.
        given: String,
        /// The expected value.
        known: String,
    },
    /// The draft is already submitted.
    #[error(
        "draft `{draft}` is already submitted and awaits a decision (see the inbox) or the rest of its change set"
    )]
    AlreadySubmitted {
        /// The draft.
        draft: String,
    },
    /// The name of a task or worker is invalid.
    #[error("`{given}` is not a valid {what}: use 1 to 64 letters, digits, `_` and `-`")]
    InvalidName {
        /// The given text.
        given: String,
        /// What the name is for.
        what: &'static str,
    },
    /// A path was given as the name of a task or worker. Names become parts of file names.
    #[error(
        "SECURITY: `{given}` is a path, not a {what}; use 1 to 64 letters, digits, `_` and `-`"
    )]
    PathAsName {
        /// The given text.
        given: String,
        /// What the name is for.
        what: &'static str,
    },
    /// The file does not exist.
    #[error("file `{path}` does not exist; to propose a new file, use operation `create`")]
    Missing {
        /// The file.
        path: String,
    },
    /// The worker has no rejected draft of the file.
    #[error(
        "there is no rejected draft of `{path}` in this task, or it was pruned; request the file without `restore`"
    )]
    NoRejectedDraft {
        /// The file.
        path: String,
    },
    /// The file of the draft was removed.
    #[error(
        "draft `{draft}` is missing from _handoff/drafts; write it again with ollama_write_draft"
    )]
    DraftMissing {
        /// The draft.
        draft: String,
    },
    /// The file is not part of the change set.
    #[error(
        "change set `{set}` does not edit or create `{path}`; `draft-gate show {set}` lists its files"
    )]
    NotInSet {
        /// The change set.
        set: String,
        /// The given path.
        path: String,
    },
    /// The file already exists.
    #[error("`{path}` already exists{what}; use operation `edit`")]
    Exists {
        /// The file.
        path: String,
        /// More details, such as a different letter case.
        what: &'static str,
    },
    /// A file or draft is too large.
    #[error("`{path}` is larger than {limit} bytes; split it into smaller files")]
    TooLarge {
        /// The file.
        path: String,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("`{path}` is not text (UTF-8 without NUL); only text files are supported")]
    NotText {
        /// The file.
        path: String,
    },
    /// No file can be extracted from the text.
    #[error(
        "cannot extract files from the text: {0}; write each file as a fenced block with its path on the line of the fence"
    )]
    NoExtractableFile(&'static str),
    /// The task contract or the kind of draft does not allow the operation.
    #[error("not allowed: {reason}")]
    NotAllowed {
        /// The submitted value.
        reason: String,
    },
    /// No pending change set has this id.
    #[error("there is no pending change set `{id}`; `draft-gate pending` lists them")]
    UnknownSet {
        /// The given id.
        id: String,
    },
    /// There are no pending change sets.
    #[error("there are no pending change sets")]
    NoPendingSets,
    /// Several change sets have ids with this prefix.
    #[error("{} (see `draft-gate pending`)", ambiguity(id))]
    AmbiguousSet {
        /// The given prefix.
        id: String,
    },
    /// The verdict refers to an outdated state of the change set.
    #[error(
        "the change set has changed since you reviewed it (fingerprint {seen}, now {now}); review it again with `draft-gate review {set}`"
    )]
    StaleReview {
        /// The change set.
        set: String,
        /// Fingerprint that the verdict refers to.
        seen: String,
        /// Current fingerprint.
        now: String,
    },
    /// Another program changed the file.
    #[error(
        "`{path}` was changed by another program; nothing was applied, review the change again"
    )]
    Conflict {
        /// The file.
        path: String,
    },
    /// The change set was partly applied and could not be rolled back.
    #[error(
        "change set `{set}` could not be applied ({cause}), and `{path}` could not be rolled back ({fault}); \
         the next command tries again: make the file and its directory writable and free some disk space"
    )]
    RollbackFailed {
        /// The change set.
        set: String,
        /// File that still has its new content.
        path: String,
        /// Why the set could not be applied.
        cause: String,
        /// Why the file could not be rolled back.
        fault: String,
    },
    /// The accepted change set cannot be undone.
    #[error("change set `{id}` cannot be undone: {why}")]
    CannotUndo {
        /// The change set.
        id: String,
        /// Why.
        why: String,
    },
    /// The log differs from what the gate wrote.
    #[error("transition.ndjson was modified: {fault}; {advice}")]
    CorruptLog {
        /// The first difference.
        fault: String,
        /// How to fix it.
        advice: &'static str,
    },
    /// A file of the gate is corrupt.
    #[error(
        "`{file}` is corrupt: {fault}; restore it from a copy, or reject the change set that needs it"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// What is wrong.
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
        /// Why.
        why: String,
    },
    /// The directory has no gate.
    #[error(
        "`{}` has no gate; set the workspace with --workspace, or create a gate with `draft-gate serve`", path.display()
    )]
    NoGate {
        /// The directory.
        path: PathBuf,
    },
    /// The workspace cannot be opened.
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: String,
        /// What the system says.
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

/// Makes text of a worker safe for messages: truncated, with control characters escaped.
pub(crate) fn escape_for_message(text: &str) -> String {
    let escaped: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'").replace("\\\"", "\"")
}
