//! Command-line arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Review gate for edits proposed by workers
#[derive(Debug, Parser)]
#[command(name = "draft-gate", version)]
pub(crate) struct Cli {
    /// Workspace directory
    #[arg(long, short = 'w', default_value = ".", global = true)]
    pub(crate) workspace: PathBuf,
    /// Your name in the log (default: $USER)
    #[arg(long = "as", value_name = "NAME", global = true)]
    pub(crate) agent: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the tools of one worker over standard input and output (MCP)
    Serve(Serve),
    /// List change sets that await your decision or more drafts
    Pending,
    /// Review pending change sets interactively
    Review {
        /// Change set: its id or a unique prefix
        #[arg(default_value = "")]
        set: String,
    },
    /// Show a pending change set: risks, diff and the fingerprint for a verdict
    Show {
        /// Change set: its id or a unique prefix
        #[arg(default_value = "")]
        set: String,
    },
    /// Apply a change set that you have reviewed
    Accept(ReviewedSet),
    /// Reject a change set that you have reviewed
    Reject {
        #[command(flatten)]
        reviewed: ReviewedSet,
        /// Reason, shown to the worker
        #[arg(long)]
        reason: String,
    },
    /// Replace the text of a draft by your own
    Amend {
        #[command(flatten)]
        reviewed: ReviewedSet,
        /// File of the set
        #[arg(long)]
        path: String,
        /// File with the new text
        #[arg(long)]
        with: PathBuf,
    },
    /// Drop an incomplete change set; its worker can restore the drafts
    Drop {
        /// Change set: its id or a unique prefix
        set: String,
    },
    /// Print messages to the floor manager, or to a worker about a task
    Inbox {
        /// Worker name; requires --task
        #[arg(long, requires = "task")]
        worker: Option<String>,
        /// Task id; requires --worker
        #[arg(long, requires = "worker")]
        task: Option<String>,
    },
    /// Undo an accepted change set
    Undo {
        /// Change set: its id or a unique prefix; `draft-gate log` lists them
        set: String,
    },
    /// Judge submissions of servers that run with --no-judging
    Judge,
    /// Print the log, one line per event
    Log,
    /// Verify that the log was not modified
    Verify {
        /// Fail unless the log contains this head, which you saved earlier
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
        /// Accept the current end of the log after a loss; the loss is logged
        #[arg(long)]
        acknowledge_loss: bool,
    },
    /// Print statistics: decisions, edit times, violations, parse failures
    Stats,
    /// Remove content of drafts that were decided or abandoned longer ago than the retention period
    Prune,
    /// Submit and judge the files in a model's text, for models without tools
    Extract {
        /// Task id
        #[arg(long)]
        task: String,
        /// Worker name
        #[arg(long, default_value = "worker")]
        worker: String,
        /// Text file; standard input if absent
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Worker name
    #[arg(long, default_value = "worker")]
    pub(crate) worker: String,
    /// Leave judging to `draft-gate judge`
    #[arg(long)]
    pub(crate) no_judging: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReviewedSet {
    /// Change set: its id or a unique prefix
    pub(crate) set: String,
    /// Fingerprint (sight) that `draft-gate show` printed; at least its first 32 digits
    #[arg(long = "sight", value_name = "FINGERPRINT")]
    pub(crate) fingerprint: String,
}
