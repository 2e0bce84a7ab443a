//! The gate on the command line: the server that workers talk to, and the commands of who decides.

mod args;
mod out;
mod paint;
mod review;

use std::{
    env, fs,
    io::{self, Read},
    path::Path,
    process::ExitCode,
};

use clap::Parser;
use draft_gate::{
    Digest, Error, Gate, Judgement, Waiting,
    mcp::{DraftServer, Judging},
    visible,
};
use rmcp::{ServiceExt, transport::stdio};

use crate::{
    args::{Cli, Command, Seen, Serve},
    out::{ReaderGone, complain, say, say_line},
    paint::{Paint, print_judgement},
};

/// So much of a sight has to be typed: of fewer digits a worker could find two changes that share them.
const SIGHT_DIGITS: usize = 32;

/// What a command failed with.
type Problem = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    #[cfg(feature = "sandbox")]
    draft_gate::sandbox::enter_guest();
    match run(Cli::parse()) {
        Err(error) if !error.is::<ReaderGone>() => {
            complain(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn run(cli: Cli) -> Result<(), Problem> {
    let agent = cli.agent.or_else(|| env::var("USER").ok()).unwrap_or_else(|| "person".to_owned());
    let gate = open(&cli.workspace, &cli.command)?;
    match cli.command {
        Command::Serve(serve_args) => serve(gate, &serve_args),
        Command::Pending => pending(&gate),
        Command::Review { set } => review::review(&gate, &set, &agent),
        Command::Show { set } => {
            let set = gate.find_pending(&set)?;
            print_judgement(&gate.look(&set)?, Paint::of_stdout())
        }
        Command::Accept(seen) => {
            let (set, sight) = resolve(&gate, &seen)?;
            gate.accept(&set, sight, &agent)?;
            say_line(format_args!("{set} is applied"))
        }
        Command::Reject { seen, reason } => {
            let (set, sight) = resolve(&gate, &seen)?;
            gate.reject(&set, sight, &reason, &agent)?;
            say_line(format_args!("{set} is rejected"))
        }
        Command::Amend { seen, path, with } => {
            let (set, sight) = resolve(&gate, &seen)?;
            let judgement = gate.amend(&set, &path, &text_of(&with)?, sight, &agent)?;
            print_judgement(&judgement, Paint::of_stdout())
        }
        Command::Drop { set } => {
            say_line(format_args!("{} is dropped", gate.drop_held(&set, &agent)?))
        }
        Command::Inbox { worker, task } => inbox(&gate, worker.as_deref().zip(task.as_deref())),
        Command::Undo { set } => {
            let mut paths = gate.undo(&set, &agent)?.into_iter();
            paths.try_for_each(|it| say_line(format_args!("{it} is as it was before {set}")))
        }
        Command::Judge => judge_all(&gate),
        Command::Log => log(&gate),
        Command::Verify { head, acknowledge_loss } => {
            verify(&gate, head.as_deref(), acknowledge_loss, &agent)
        }
        Command::Stats => say(gate.stats()?),
        Command::Prune => {
            let pruned = gate.prune()?;
            say_line(format_args!(
                "removed {} decided change sets, {} drafts and sets that were left alone, {} rejected drafts, \
                 {} contents, {} inboxes, {} temporary files",
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

/// A log that is not what it was must not keep anybody from finding that out, and nobody makes a gate by looking
/// for one in the wrong folder.
fn open(workspace: &Path, command: &Command) -> Result<Gate, Error> {
    if !matches!(command, Command::Serve(_) | Command::Extract { .. }) {
        let gate = Gate::open_to_look(workspace)?;
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

fn serve(gate: Gate, args: &Serve) -> Result<(), Problem> {
    let judging = if args.no_judging { Judging::Elsewhere } else { Judging::AtOnce };
    if judging == Judging::AtOnce {
        judge_what_waits(&gate, &args.worker)?;
    }
    let server = DraftServer::new(gate, &args.worker, judging)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served: Result<(), Problem> = runtime.block_on(async {
        server.serve(stdio()).await?.waiting().await?;
        Ok(())
    });
    // A thread that still reads from standard input is not waited for.
    runtime.shutdown_background();
    served
}

/// What a crash left of this worker's is judged first; what others have submitted is theirs to have judged. A set
/// that cannot be judged stays for `draft-gate judge`, and stops nobody.
fn judge_what_waits(gate: &Gate, worker: &str) -> Result<(), Problem> {
    for (set, judged) in gate.judge_all_of(worker)? {
        if let Err(error) = judged {
            complain(format_args!("change set {set} is not judged: {error}"));
        }
    }
    Ok(())
}

fn judge_all(gate: &Gate) -> Result<(), Problem> {
    let mut n_failed = 0;
    let mut said = Ok(());
    for (set, judged) in gate.judge_all()? {
        match judged {
            Ok(judgement) => said = said.and_then(|()| print_decision(&judgement)),
            Err(error) => {
                complain(format_args!("change set {set} is not judged: {error}"));
                n_failed += 1;
            }
        }
    }
    if n_failed > 0 { Err(format!("{n_failed} change sets are not judged").into()) } else { said }
}

fn pending(gate: &Gate) -> Result<(), Problem> {
    let (waiting, held) = (gate.pending()?, gate.held()?);
    if waiting.is_empty() && held.is_empty() {
        return say_line("nothing waits");
    }
    for waiting in &waiting {
        print_waiting(waiting, "")?;
    }
    for held in &held {
        print_waiting(held, "  (waits for more drafts: `draft-gate drop` removes it)")?;
    }
    Ok(())
}

fn print_waiting(waiting: &Waiting, more: &str) -> Result<(), Problem> {
    let Waiting { set, worker, task, summary, .. } = waiting;
    let paths: Vec<&str> = waiting.paths.iter().map(|it| it.as_str()).collect();
    let line = format!("{set}  {worker} / {task}  {}  {summary}", paths.join(" "));
    say_line(format_args!("{}{more}", visible(&line)))
}

fn inbox(gate: &Gate, of: Option<(&str, &str)>) -> Result<(), Problem> {
    let messages = match of {
        Some((worker, task)) => gate.inbox(worker, task, None)?,
        None => gate.manager_inbox()?,
    };
    for message in messages {
        let kind = serde_json::to_value(message.kind)?;
        let kind = kind.as_str().unwrap_or_default();
        let (task, set, paths) = (&message.task_id, &message.set, message.paths.join(" "));
        say_line(visible(&format!("{kind}  {task}  {set}  {paths}  {}", message.reason)))?;
    }
    Ok(())
}

/// From what a person typed to a whole id and sight. The sight has to be the one of now.
fn resolve(gate: &Gate, seen: &Seen) -> Result<(String, Digest), Problem> {
    let set = gate.find_pending(&seen.set)?;
    if seen.sight.len() < SIGHT_DIGITS {
        let what =
            format!("`{}` is no sight: give the one that `draft-gate show` printed", seen.sight);
        return Err(format!("{what}, {SIGHT_DIGITS} digits of it or all").into());
    }
    let now = gate.look(&set)?.sight;
    if !now.to_string().starts_with(&seen.sight) {
        let seen = seen.sight.chars().take(now.short().len()).collect();
        return Err(Error::SightChanged { set, seen, now: now.short() }.into());
    }
    Ok((set, now))
}

fn log(gate: &Gate) -> Result<(), Problem> {
    for record in gate.records()? {
        let more = serde_json::to_string(&record.more)?;
        let line = format!(
            "{} {} {} {} {} {more}",
            record.seq, record.timestamp, record.agent_id, record.event, record.task_id
        );
        say_line(visible(&line))?;
    }
    Ok(())
}

fn verify(
    gate: &Gate,
    head: Option<&str>,
    acknowledge_loss: bool,
    agent: &str,
) -> Result<(), Problem> {
    if acknowledge_loss {
        gate.acknowledge_loss(agent)?;
    }
    let verified = gate.verify()?;
    let found = verified.head.map(|it| it.to_string()).unwrap_or_default();
    if let Some(head) = head
        && head != found
        && !gate.has_line(head)?
    {
        return Err(
            format!("the log is whole, but no line of it is {head}: it was written anew").into()
        );
    }
    say_line(format_args!("{} lines, none changed; head {found}", verified.lines))
}

fn extract(gate: &Gate, task: &str, worker: &str, file: Option<&Path>) -> Result<(), Problem> {
    let text = match file {
        Some(file) => text_of(file)?,
        None => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let submitted = gate.submit_text(worker, task, &text)?;
    print_decision(&gate.judge(&submitted.set)?)
}

/// The text of a file that a person named.
fn text_of(file: &Path) -> Result<String, Problem> {
    let refused = |error| format!("cannot read `{}`: {error}; give a text file", file.display());
    Ok(fs::read_to_string(file).map_err(refused)?)
}

fn print_decision(judgement: &Judgement) -> Result<(), Problem> {
    say_line(format_args!("{} {:?}", judgement.set, judgement.decision))?;
    let mut findings = judgement.findings.iter();
    findings.try_for_each(|it| say_line(format_args!("  {}", visible(&it.to_string()))))
}
