//! What can go wrong, and what to do about it.

use std::{io, path::PathBuf};

/// An error of the gate.
///
/// Those for which [`is_violation`](Self::is_violation) holds are attempts to get past it: they are written to the
/// log with the prefix `SECURITY:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that names no file of the workspace.
    #[error(
        "SECURITY: path `{path}` is refused: {fault}; give a path like `src/main.py`, from the workspace's root"
    )]
    BadPath {
        /// What was given, shortened and with control characters escaped.
        path: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A file that no worker may see.
    #[error(
        "SECURITY: `{path}` is not for workers: {why}; leave it as it is, or ask a person to change it"
    )]
    Protected {
        /// The file.
        path: String,
        /// Why it is protected.
        why: &'static str,
    },
    /// A link, a mount or a special file where a plain one has to be.
    #[error("SECURITY: `{path}` is refused: {fault}; only plain files with one name are taken")]
    Unsafe {
        /// The file or folder.
        path: String,
        /// What it is.
        fault: &'static str,
    },
    /// A draft that this worker was not given.
    #[error(
        "SECURITY: draft `{draft}` was not issued to `{worker}`; request one with ollama_request_draft"
    )]
    NotIssued {
        /// The draft's path as given.
        draft: String,
        /// Who used it.
        worker: String,
    },
    /// A submission that says something else than the server knows of the draft.
    #[error(
        "SECURITY: the submission says {field} `{given}`, but draft `{draft}` was issued for `{known}`; \
         submit it with what ollama_request_draft gave"
    )]
    Forged {
        /// The draft.
        draft: String,
        /// Which field differs.
        field: &'static str,
        /// What it says.
        given: String,
        /// What is known.
        known: String,
    },
    /// A draft that was submitted and waits for its decision.
    #[error(
        "draft `{draft}` was submitted and waits: for a decision, which the inbox will tell, or for the rest of its change set"
    )]
    Submitted {
        /// The draft.
        draft: String,
    },
    /// A name of a task or of a worker that is none.
    #[error("`{given}` is no {what}: use 1 to 64 letters, digits, `_` and `-`")]
    BadName {
        /// What was given.
        given: String,
        /// What it should name.
        what: &'static str,
    },
    /// A path where the name of a task or of a worker has to be: names are made into names of files.
    #[error(
        "SECURITY: `{given}` is a path and no {what}; use 1 to 64 letters, digits, `_` and `-`"
    )]
    PathForName {
        /// What was given.
        given: String,
        /// What it should name.
        what: &'static str,
    },
    /// A file that is not there.
    #[error("there is no file `{path}`; to propose a new one, request it with operation `create`")]
    Missing {
        /// The file.
        path: String,
    },
    /// A rejected draft that there is none of.
    #[error(
        "no draft of `{path}` was rejected in this task, or it was pruned; request it without `restore`"
    )]
    NothingRejected {
        /// The file.
        path: String,
    },
    /// A draft whose file somebody removed.
    #[error("draft `{draft}` is gone from _handoff/drafts; write it again with ollama_write_draft")]
    DraftGone {
        /// The draft.
        draft: String,
    },
    /// A file that is no part of a change set.
    #[error(
        "`{path}` is not a file that change set `{set}` edits or makes; `draft-gate show {set}` lists them"
    )]
    NotInSet {
        /// The change set.
        set: String,
        /// The path as given.
        path: String,
    },
    /// A file that is there already.
    #[error("`{path}` exists{what}; request it with operation `edit`")]
    Exists {
        /// The file.
        path: String,
        /// More on it.
        what: &'static str,
    },
    /// A file or a draft that is too long.
    #[error("`{path}` is longer than {limit} bytes; split the work into smaller files")]
    TooLarge {
        /// The file.
        path: String,
        /// How long it may be.
        limit: u64,
    },
    /// A file that is no text.
    #[error("`{path}` is not text (UTF-8 without NUL); drafts are for text alone")]
    NotText {
        /// The file.
        path: String,
    },
    /// A text that no file can be taken from.
    #[error(
        "no file is taken from the text: {0}; write each file as a fenced block with its path on the fence's line"
    )]
    NoFile(&'static str),
    /// Something that the task's contract, or the kind of draft, does not allow.
    #[error("not allowed: {reason}")]
    NotAllowed {
        /// What it says.
        reason: String,
    },
    /// A change set that is not there, or no longer.
    #[error("no change set `{id}` waits; `draft-gate pending` lists those that do")]
    NoSuchSet {
        /// The id as given.
        id: String,
    },
    /// Nothing at all where somebody wants to decide.
    #[error("no change set waits for a decision")]
    NothingWaits,
    /// A beginning of an id that several change sets share.
    #[error("{}: `draft-gate pending` lists them", several(id))]
    SeveralSets {
        /// The beginning as given.
        id: String,
    },
    /// A verdict on something else than what is there now.
    #[error(
        "what you saw ({seen}) is not what is there now ({now}); look again with `draft-gate review {set}`"
    )]
    SightChanged {
        /// The change set.
        set: String,
        /// The sight that the verdict names.
        seen: String,
        /// The sight as it is.
        now: String,
    },
    /// A file that somebody else changed.
    #[error("`{path}` was changed by somebody else; nothing was applied, look at the change again")]
    Conflict {
        /// The file.
        path: String,
    },
    /// A change set that was applied in part, and could not be taken back.
    #[error(
        "change set `{set}` could not be applied ({cause}), and `{path}` could not be taken back ({fault}); \
         its journal stays, and the next command tries again: make the file and its folder writable, and free some space"
    )]
    NotTakenBack {
        /// The change set.
        set: String,
        /// The file that still has its new content.
        path: String,
        /// Why the set could not be applied.
        cause: String,
        /// Why the file could not be taken back.
        fault: String,
    },
    /// An accepted change set that cannot be undone.
    #[error("change set `{id}` cannot be undone: {why}")]
    NoUndo {
        /// The change set.
        id: String,
        /// Why.
        why: String,
    },
    /// A log that is not what the gate wrote.
    #[error("transition.ndjson is not what the gate wrote: {fault}; {advice}")]
    Log {
        /// The first thing that is wrong.
        fault: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A stored file of the gate that cannot be read.
    #[error("`{file}` is damaged: {fault}; bring it back from a copy, or reject what needs it")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        fault: String,
    },
    /// A contract that cannot be read. Nothing is accepted under it.
    #[error("_handoff/TASK_CONTRACT.json is refused: {0}; nothing is accepted until it is mended")]
    Contract(String),
    /// A check of the project that could not be run.
    #[error(
        "check `{check}` could not be run to its end: {why}; mend it in _handoff/TASK_CONTRACT.json \
         (programs are those of this machine's /usr), or decide without it"
    )]
    Check {
        /// Its name.
        check: String,
        /// Why.
        why: String,
    },
    /// A folder without a gate, where somebody wants to look at one.
    #[error(
        "`{}` has no gate; name the workspace with --workspace, or make one with `draft-gate serve`", path.display()
    )]
    NoGate {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that cannot be a workspace.
    #[error("`{}` cannot be opened as a workspace: {source}", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system refused something.
    #[error("cannot {what} `{path}`: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// Whether this is an attempt to get past the gate.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            Self::BadPath { .. }
                | Self::PathForName { .. }
                | Self::Protected { .. }
                | Self::Unsafe { .. }
                | Self::NotIssued { .. }
                | Self::Forged { .. }
        )
    }
}

fn several(start: &str) -> String {
    match start {
        "" => "several change sets wait; name one of them".to_owned(),
        _ => format!("several change sets start with `{start}`; give more digits"),
    }
}

/// What a worker wrote, fit to stand in a message: short, and without anything that moves a terminal's cursor.
pub(crate) fn shown(text: &str) -> String {
    let escaped: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'").replace("\\\"", "\"")
}
