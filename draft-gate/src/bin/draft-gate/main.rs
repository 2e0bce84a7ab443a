//! The `draft-gate` command: the MCP server for workers, and the reviewer's commands.

mod args;
mod output;
mod render;
mod review;

use std::{
    env, fs,
    io::{self, Read},
    path::Path,
    process::ExitCode,
};

use clap::Parser;
use draft_gate::{
    Digest, Error, Gate, Judgement, PendingSet, escape_invisible,
    mcp::{DraftServer, JudgingMode},
};
use rmcp::{ServiceExt, transport::stdio};

use crate::{
    args::{Cli, Command, ReviewedSet, Serve},
    output::{BoxError, StdoutClosed, print, print_error, print_line},
    render::{ColorMode, print_judgement, print_origin},
};

/// Minimum number of fingerprint digits that a reviewer must type. With fewer digits, a worker could construct two
/// changes whose fingerprints start with the same digits.
const MIN_FINGERPRINT_DIGITS: usize = 32;

/// Maximum size of a text that is read from standard input, in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

fn main() -> ExitCode {
    #[cfg(feature = "sandbox")]
    draft_gate::sandbox::enter_guest();
    match run(Cli::parse()) {
        Err(error) if !error.is::<StdoutClosed>() => {
            print_error(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn run(cli: Cli) -> Result<(), BoxError> {
    let agent = cli.agent.or_else(|| env::var("USER").ok()).unwrap_or_else(|| "person".to_owned());
    let gate = open(&cli.workspace, &cli.command)?;
    match cli.command {
        Command::Serve(serve_args) => serve(gate, &serve_args),
        Command::Pending => pending(&gate),
        Command::Review { set } => review::review(&gate, &set, &agent),
        Command::Show { set } => {
            let set = gate.find_pending(&set)?;
            let judgement = gate.inspect(&set)?;
            gate.pending()?.iter().find(|it| it.set == set).map_or(Ok(()), print_origin)?;
            print_judgement(&judgement, ColorMode::for_stdout())
        }
        Command::Accept(reviewed) => {
            let (set, fingerprint) = resolve(&gate, &reviewed)?;
            gate.accept(&set, fingerprint, &agent)?;
            print_line(format_args!("{set} applied"))
        }
        Command::Reject { reviewed, reason } => {
            let (set, fingerprint) = resolve(&gate, &reviewed)?;
            gate.reject(&set, fingerprint, &reason, &agent)?;
            print_line(format_args!("{set} rejected"))
        }
        Command::Amend { reviewed, path, with } => {
            let (set, fingerprint) = resolve(&gate, &reviewed)?;
            let judgement = gate.amend(&set, &path, &read_text(&with)?, fingerprint, &agent)?;
            print_judgement(&judgement, ColorMode::for_stdout())
        }
        Command::Drop { set } => {
            print_line(format_args!("{} dropped", gate.drop_incomplete(&set, &agent)?))
        }
        Command::Inbox { worker, task } => inbox(&gate, worker.as_deref().zip(task.as_deref())),
        Command::Undo { set } => {
            let mut paths = gate.undo(&set, &agent)?.into_iter();
            paths.try_for_each(|it| {
                print_line(format_args!("{it} restored to its state before {set}"))
            })
        }
        Command::Judge => judge_all(&gate),
        Command::Log => log(&gate),
        Command::Verify { head, acknowledge_loss } => {
            verify(&gate, head.as_deref(), acknowledge_loss, &agent)
        }
        Command::Stats => print(gate.stats()?),
        Command::Prune => {
            let pruned = gate.prune()?;
            print_line(format_args!(
                "removed decided change sets: {}, abandoned drafts and sets: {}, rejected drafts: {}, \
                 contents: {}, inboxes: {}, temporary files: {}",
                pruned.decided,
                pruned.abandoned,
                pruned.rejected,
                pruned.blobs,
                pruned.inboxes,
                pruned.temporary
            ))
        }
        Command::Extract { task, worker, file } => extract(&gate, &task, &worker, file.as_deref()),
    }
}

/// Opens the gate. Read-only commands skip verification, so that a modified log can be inspected. Commands that need an
/// existing gate do not create one, because the directory may be the wrong one.
fn open(workspace: &Path, command: &Command) -> Result<Gate, Error> {
    if !matches!(command, Command::Serve(_) | Command::Extract { .. }) {
        let gate = Gate::open_unchecked(workspace)?;
        if matches!(command, Command::Verify { .. } | Command::Log) {
            return Ok(gate);
        }
    }
    Gate::open(workspace).map(with_checks)
}

#[cfg(feature = "sandbox")]
fn with_checks(gate: Gate) -> Gate {
    gate.with_checks(draft_gate::sandbox::SandboxChecks::new())
}

#[cfg(not(feature = "sandbox"))]
fn with_checks(gate: Gate) -> Gate {
    gate
}

fn serve(gate: Gate, args: &Serve) -> Result<(), BoxError> {
    let judging = if args.no_judging { JudgingMode::Deferred } else { JudgingMode::Immediate };
    if judging == JudgingMode::Immediate {
        judge_leftovers(&gate, &args.worker)?;
    }
    let server = DraftServer::new(gate, &args.worker, judging)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served: Result<(), BoxError> = runtime.block_on(async {
        server.serve(stdio()).await?.waiting().await?;
        Ok(())
    });
    // Do not wait for the OS thread that reads standard input, because its blocking read cannot be cancelled.
    runtime.shutdown_background();
    served
}

/// Judges the submissions of this worker that a crash left unjudged. If a set cannot be judged, prints the error and
/// leaves the set to `draft-gate judge`.
fn judge_leftovers(gate: &Gate, worker: &str) -> Result<(), BoxError> {
    for (set, judged) in gate.judge_all_of(worker)? {
        if let Err(error) = judged {
            print_error(format_args!("cannot judge change set {set}: {error}"));
        }
    }
    Ok(())
}

fn judge_all(gate: &Gate) -> Result<(), BoxError> {
    let mut n_failed = 0;
    let mut printed = Ok(());
    for (set, judged) in gate.judge_all()? {
        match judged {
            Ok(judgement) => printed = printed.and_then(|()| print_decision(&judgement)),
            Err(error) => {
                print_error(format_args!("cannot judge change set {set}: {error}"));
                n_failed += 1;
            }
        }
    }
    if n_failed > 0 {
        let sets = if n_failed == 1 { "change set" } else { "change sets" };
        Err(format!("{n_failed} {sets} could not be judged").into())
    } else {
        printed
    }
}

fn pending(gate: &Gate) -> Result<(), BoxError> {
    let (pending, incomplete) = (gate.pending()?, gate.incomplete()?);
    if pending.is_empty() && incomplete.is_empty() {
        return print_line("no pending change sets");
    }
    for set in &pending {
        print_set(set, "")?;
    }
    for set in &incomplete {
        print_set(set, "  (awaits more drafts; `draft-gate drop` drops it)")?;
    }
    Ok(())
}

fn print_set(pending: &PendingSet, more: &str) -> Result<(), BoxError> {
    let PendingSet { set, worker, task, summary, .. } = pending;
    let paths: Vec<&str> = pending.paths.iter().map(|it| it.as_str()).collect();
    let line = format!("{set}  {worker} / {task}  {}  {summary}", paths.join(" "));
    print_line(format_args!("{}{more}", escape_invisible(&line)))
}

fn inbox(gate: &Gate, of: Option<(&str, &str)>) -> Result<(), BoxError> {
    let messages = match of {
        Some((worker, task)) => gate.inbox(worker, task, None)?,
        None => gate.manager_inbox()?,
    };
    for message in messages {
        let kind = serde_json::to_value(message.kind)?;
        let kind = kind.as_str().unwrap_or_default();
        let (task, set, paths) = (&message.task_id, &message.set, message.paths.join(" "));
        print_line(escape_invisible(&format!(
            "{kind}  {task}  {set}  {paths}  {}",
            message.reason
        )))?;
    }
    Ok(())
}

/// Resolves the id and the fingerprint that the reviewer typed. Fails if the fingerprint does not match the current
/// state of the change set.
fn resolve(gate: &Gate, reviewed: &ReviewedSet) -> Result<(String, Digest), BoxError> {
    let set = gate.find_pending(&reviewed.set)?;
    if reviewed.fingerprint.len() < MIN_FINGERPRINT_DIGITS {
        let what = format!(
            "`{}` is not a valid fingerprint: use the one that `draft-gate show` prints",
            reviewed.fingerprint
        );
        return Err(format!("{what}, at least its first {MIN_FINGERPRINT_DIGITS} digits").into());
    }
    let now = gate.inspect(&set)?.fingerprint;
    if !now.to_string().starts_with(&reviewed.fingerprint) {
        let seen = reviewed.fingerprint.chars().take(now.short().len()).collect();
        return Err(Error::StaleReview { set, seen, now: now.short() }.into());
    }
    Ok((set, now))
}

fn log(gate: &Gate) -> Result<(), BoxError> {
    for record in gate.records()? {
        let more = serde_json::to_string(&record.more)?;
        let line = format!(
            "{} {} {} {} {} {more}",
            record.seq, record.timestamp, record.agent_id, record.event, record.task_id
        );
        print_line(escape_invisible(&line))?;
    }
    Ok(())
}

fn verify(
    gate: &Gate,
    head: Option<&str>,
    acknowledge_loss: bool,
    agent: &str,
) -> Result<(), BoxError> {
    if acknowledge_loss {
        gate.acknowledge_loss(agent)?;
    }
    let verified = gate.verify()?;
    let found = verified.head.map(|it| it.to_string()).unwrap_or_default();
    if let Some(head) = head
        && head != found
        && !gate.has_line(head)?
    {
        return Err(format!(
            "the log is consistent but has no line with hash {head}: it was rewritten"
        )
        .into());
    }
    print_line(format_args!("the log is unmodified; lines: {}; head: {found}", verified.lines))
}

fn extract(gate: &Gate, task: &str, worker: &str, file: Option<&Path>) -> Result<(), BoxError> {
    let text = match file {
        Some(file) => read_text(file)?,
        None => {
            let mut text = String::new();
            io::stdin().take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)?;
            if text.len() as u64 > MAX_TEXT_BYTES {
                let fault = "the text on standard input is larger than";
                return Err(format!("{fault} {MAX_TEXT_BYTES} bytes; split it").into());
            }
            text
        }
    };
    let submitted = gate.submit_text(worker, task, &text)?;
    print_decision(&gate.judge(&submitted.set)?)
}

/// Reads a text file that was specified on the command line.
fn read_text(file: &Path) -> Result<String, BoxError> {
    let refused = |error| format!("cannot read `{}`: {error}; give a text file", file.display());
    Ok(fs::read_to_string(file).map_err(refused)?)
}

fn print_decision(judgement: &Judgement) -> Result<(), BoxError> {
    print_line(format_args!("{} {:?}", judgement.set, judgement.decision))?;
    let mut findings = judgement.findings.iter();
    findings.try_for_each(|it| print_line(format_args!("  {}", escape_invisible(&it.to_string()))))
}
