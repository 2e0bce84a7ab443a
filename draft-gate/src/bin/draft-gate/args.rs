//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Workers propose edits as drafts, and a gate decides what reaches the files.
#[derive(Debug, Parser)]
#[command(name = "draft-gate", version)]
pub(crate) struct Cli {
    /// The workspace.
    #[arg(long, short = 'w', default_value = ".", global = true)]
    pub(crate) workspace: PathBuf,
    /// Your name in the log.
    #[arg(long = "as", value_name = "NAME", global = true)]
    pub(crate) agent: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves one worker's tools over standard input and output (MCP).
    Serve(Serve),
    /// Lists the change sets that wait for you, and those that wait for more drafts of their worker.
    Pending,
    /// Shows what waits, one after the other, and asks for your verdict.
    Review {
        /// The change set; its first digits are enough.
        #[arg(default_value = "")]
        set: String,
    },
    /// Shows a change set that waits: risks, difference, and the sight that a verdict names.
    Show {
        /// The change set; its first digits are enough.
        #[arg(default_value = "")]
        set: String,
    },
    /// Applies a change set that you have seen.
    Accept(ReviewedSet),
    /// Rejects a change set that you have seen.
    Reject {
        #[command(flatten)]
        reviewed: ReviewedSet,
        /// Why: the worker reads this.
        #[arg(long)]
        reason: String,
    },
    /// Puts your text in place of a draft's.
    Amend {
        #[command(flatten)]
        reviewed: ReviewedSet,
        /// Which file of the set.
        #[arg(long)]
        path: String,
        /// The file with the new text.
        #[arg(long)]
        with: PathBuf,
    },
    /// Drops a change set that waits for more drafts; its worker is told, and can take its drafts up again.
    Drop {
        /// The change set; its first digits are enough.
        set: String,
    },
    /// Prints messages: the floor manager's, or what a worker was told about a task.
    Inbox {
        /// The worker's name; needs `--task`.
        #[arg(long, requires = "task")]
        worker: Option<String>,
        /// The task; needs `--worker`.
        #[arg(long, requires = "worker")]
        task: Option<String>,
    },
    /// Takes an accepted change set back.
    Undo {
        /// The change set; its first digits are enough. `draft-gate log` lists them.
        set: String,
    },
    /// Judges what was submitted to a server that does not judge itself.
    Judge,
    /// Prints the log, one line for each event.
    Log,
    /// Looks whether the log is what the gate wrote.
    Verify {
        /// Fails unless the log's head is this one, which you have kept elsewhere.
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
        /// Goes on after the log's end was lost; the loss stays in the log.
        #[arg(long)]
        acknowledge_loss: bool,
    },
    /// Prints numbers: decisions, times, violations, failures of parsing.
    Stats,
    /// Removes content of drafts that were decided, or left alone, longer ago than the contract says.
    Prune,
    /// Makes drafts of the files in a model's text, and judges them: for models without tools.
    Extract {
        /// The task.
        #[arg(long)]
        task: String,
        /// The worker's name.
        #[arg(long, default_value = "worker")]
        worker: String,
        /// The text; standard input unless given.
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The worker's name.
    #[arg(long, default_value = "worker")]
    pub(crate) worker: String,
    /// Leaves judging to `draft-gate judge`.
    #[arg(long)]
    pub(crate) no_judging: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReviewedSet {
    /// The change set; its first digits are enough.
    pub(crate) set: String,
    /// The sight that `draft-gate show` printed; its first 32 digits are enough.
    #[arg(long = "sight", value_name = "FINGERPRINT")]
    pub(crate) fingerprint: String,
}
