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
    /// Serve one worker's tools over standard input and output (MCP)
    Serve(Serve),
    /// List change sets that are waiting for your decision or for more drafts
    Pending,
    /// Review pending change sets interactively
    Review {
        /// Review only change sets whose id starts with this prefix [default: all]
        #[arg(default_value = "", hide_default_value = true)]
        set: String,
    },
    /// Show a pending change set: its findings, its diff and the fingerprint to accept or reject it
    Show {
        /// Change set: its id or a unique prefix [default: the only pending one]
        #[arg(default_value = "", hide_default_value = true)]
        set: String,
    },
    /// Apply a change set that you have reviewed
    Accept(ReviewedSet),
    /// Reject a change set that you have reviewed
    Reject {
        #[command(flatten)]
        reviewed: ReviewedSet,
        /// Reason to show to the worker
        #[arg(long)]
        reason: String,
    },
    /// Replace the text of a draft with your own
    Amend {
        #[command(flatten)]
        reviewed: ReviewedSet,
        /// Path of a file in the change set
        #[arg(long)]
        path: String,
        /// File that contains the new text
        #[arg(long)]
        with: PathBuf,
    },
    /// Drop an incomplete change set; the worker can restore its drafts
    Drop {
        /// Change set: its id or a unique prefix
        set: String,
    },
    /// Print the messages for the floor manager, or for a worker about a task
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
        /// Change set: its id or a unique prefix; `draft-gate log` lists the ids
        set: String,
    },
    /// Judge submissions that are not judged yet, such as those from servers with --no-judging
    Judge,
    /// Print the log, one line per event
    Log,
    /// Verify that the log was not modified
    Verify {
        /// Fail unless the log contains the line with this hash, which you saved earlier
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
        /// Accept the current end of the log after a loss, and log the loss
        #[arg(long)]
        acknowledge_loss: bool,
    },
    /// Print statistics: decisions, edit times, violations, parse failures
    Stats,
    /// Remove the content of decided and abandoned drafts that are older than the retention period
    Prune,
    /// Submit and judge the files in a model's text output, for models without tools
    Extract {
        /// Task id
        #[arg(long)]
        task: String,
        /// Worker name
        #[arg(long, default_value = "worker")]
        worker: String,
        /// File with the text (default: standard input)
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Worker name
    #[arg(long, default_value = "worker")]
    pub(crate) worker: String,
    /// Do not judge submissions; leave that to `draft-gate judge`
    #[arg(long)]
    pub(crate) no_judging: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReviewedSet {
    /// Change set: its id or a unique prefix
    pub(crate) set: String,
    /// At least the first 32 digits of the fingerprint that `draft-gate show` printed
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) fingerprint: String,
}
