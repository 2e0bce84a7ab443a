//! Executes a run with a live view, handling of Ctrl-C and an interactive review.

use std::{
    io::{IsTerminal, stderr, stdin},
    pin::pin,
};

use app_support::{files::FileError, program::print};
use consulting_graph::{
    data::Ticker,
    event::NumberedEvent,
    pipeline::{ReviewDecision, ReviewRequest},
    report::Report,
    run::{ResumeOptions, Run, RunError, RunOutcome},
};
use sandbox_vm::Isolation;
use serde_json::json;
use tokio::{
    signal::ctrl_c,
    sync::mpsc::{self, UnboundedSender},
    task::spawn_blocking,
    time::interval,
};

use crate::{
    args::{ClusterArgs, ExecutionArgs, OutputArgs},
    error::{CliError, ExitStatus},
    output::print_json,
    review::{self, PromptOutcome},
    summary::summary,
    view::{self, View},
};

/// Executes a run to its end, in this process or on a cluster, and prints its result.
pub(crate) async fn execute(
    run: &Run,
    args: &ExecutionArgs,
    cluster: &ClusterArgs,
    output: OutputArgs,
    mut decision: Option<ReviewDecision>,
) -> Result<ExitStatus, CliError> {
    for provider in run.manifest().run_config.choice.providers_with_weak_keys(run.config()) {
        eprintln!(
            "The API key of provider {provider} has fewer than 8 characters or is a word, so it is not redacted in the files of the run."
        );
    }
    loop {
        let options = ResumeOptions { review: decision.take(), ..resume_options(args)? };
        let work = |sender: UnboundedSender<NumberedEvent>| {
            resume(run, cluster, options, move |event| drop(sender.send(event.clone())))
        };
        let Some(outcome) = run_with_view(View::new(run, output).with_history(run), work).await
        else {
            return Ok(report_interrupt(run, cluster));
        };
        let outcome = outcome.map_err(|problem| match problem {
            RunError::Locked(_)
            | RunError::OnCluster(_)
            | RunError::NotOnCluster(_)
            | RunError::UnsupportedOnCluster(_)
            | RunError::OnRestate
            | RunError::NotOnRestate => CliError::Run(problem),
            RunError::NotAwaitingReview => CliError::NotAwaitingReview,
            problem => CliError::Stopped { resume: resume_command(run, cluster), problem },
        })?;
        match outcome {
            RunOutcome::Complete { report, was_complete, .. } => {
                print_result(run, &report, output)?;
                if was_complete && !output.quiet {
                    eprintln!("The run was already complete; there was nothing left to do.");
                }
                return Ok(exit_status(run, cluster, &report));
            }
            RunOutcome::AwaitingReview(review) => {
                match request_review(run, cluster, review, output).await? {
                    ReviewAnswer::Debate(moves) => decision = Some(moves),
                    ReviewAnswer::Interrupted => return Ok(report_interrupt(run, cluster)),
                    ReviewAnswer::Later => return Ok(ExitStatus::AwaitsReview),
                }
            }
        }
    }
}

#[cfg(feature = "cluster")]
async fn resume(
    run: &Run,
    cluster: &ClusterArgs,
    options: ResumeOptions,
    on_event: impl FnMut(&NumberedEvent) + Send,
) -> Result<RunOutcome, RunError> {
    match &cluster.cluster {
        Some(database) => {
            let servers = crate::cluster::servers(database, cluster.restate.as_deref());
            let servers = servers.map_err(|error| RunError::InvalidRequest(error.to_string()))?;
            run.resume_on_cluster(&servers, options.limit, options.review, on_event).await
        }
        None => run.resume(options, on_event).await,
    }
}

#[cfg(feature = "cluster")]
pub(crate) fn is_on_cluster(cluster: &ClusterArgs) -> bool {
    cluster.cluster.is_some()
}

#[cfg(not(feature = "cluster"))]
pub(crate) fn is_on_cluster(_: &ClusterArgs) -> bool {
    false
}

/// Returns the options that resume a run on the same cluster, without their values, because URLs may contain passwords.
/// The user passes the URLs again or sets the environment variables.
#[cfg(feature = "cluster")]
fn cluster_options(cluster: &ClusterArgs) -> &'static str {
    match (&cluster.cluster, &cluster.restate) {
        (None, _) => "",
        (Some(_), None) => " --cluster",
        (Some(_), Some(_)) => " --cluster --restate",
    }
}

#[cfg(not(feature = "cluster"))]
fn cluster_options(_: &ClusterArgs) -> &'static str {
    ""
}

#[cfg(not(feature = "cluster"))]
async fn resume(
    run: &Run,
    _: &ClusterArgs,
    options: ResumeOptions,
    on_event: impl FnMut(&NumberedEvent) + Send,
) -> Result<RunOutcome, RunError> {
    run.resume(options, on_event).await
}

/// If isolation is off, rejects every sandbox other than `in-process`.
pub(crate) fn check_sandbox(args: &ExecutionArgs) -> Result<(), CliError> {
    match &args.sandboxes.backend {
        Some(name) if args.sandboxes.isolation == Some(Isolation::Off) && name != "in-process" => {
            Err(CliError::ConflictingSandbox(name.clone()))
        }
        _ => Ok(()),
    }
}

/// Converts the arguments to the options for resuming a run.
fn resume_options(args: &ExecutionArgs) -> Result<ResumeOptions, CliError> {
    check_sandbox(args)?;
    Ok(ResumeOptions {
        concurrency: args.concurrency,
        isolation: args.sandboxes.isolation,
        backend: args.sandboxes.backend.clone(),
        sandbox_reuse: args.reuse.sandbox_reuse(),
        limit: args.limits.limit(),
        call_limits: args.timeouts.call_limits(),
        ..ResumeOptions::default()
    })
}

/// Runs the future that `start` returns, and updates the view until the future completes. Returns `None` if Ctrl-C
/// interrupts it.
pub(crate) async fn run_with_view<T, F: Future<Output = T>>(
    mut view: View,
    start: impl FnOnce(UnboundedSender<NumberedEvent>) -> F,
) -> Option<T> {
    let (sender, mut events) = mpsc::unbounded_channel();
    let mut work = pin!(start(sender));
    let mut stop = pin!(ctrl_c());
    let mut tick = interval(view::REDRAW_INTERVAL);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => view.show(&event),
            _ = &mut stop => break None,
            _ = tick.tick() => view.draw(),
            outcome = &mut work => break Some(outcome),
        }
    };
    while let Ok(event) = events.try_recv() {
        view.show(&event);
    }
    view.finish();
    outcome
}

enum ReviewAnswer {
    Debate(ReviewDecision),
    Later,
    Interrupted,
}

/// Asks for a review on the terminal. Without a terminal, prints how to review the moves later.
async fn request_review(
    run: &Run,
    cluster: &ClusterArgs,
    review: ReviewRequest,
    output: OutputArgs,
) -> Result<ReviewAnswer, CliError> {
    let instructions = review::write_request(run, &review, &resume_command(run, cluster))?;
    // The JSON document that is printed if the review is postponed.
    let document = output.json.then(|| json!({ "folder": run.dir(), "review": review }));
    let later = || {
        eprintln!("{instructions}");
        document.as_ref().map_or(Ok(()), |it| print_json(it, false))?;
        Ok(ReviewAnswer::Later)
    };
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        return later();
    }
    let ticker = Ticker::parse(&run.manifest().run_config.ticker)?;
    let dir = run.dir().to_owned();
    let prompt = move || review::run_prompt(ticker, review, &dir, view::columns());
    // Reading from a terminal cannot be cancelled, so an interrupt leaves the blocking thread running.
    let decision = tokio::select! {
        decision = spawn_blocking(prompt) => decision,
        _ = ctrl_c() => return Ok(ReviewAnswer::Interrupted),
    };
    match decision {
        Ok(Ok(PromptOutcome::Debate(moves))) => Ok(ReviewAnswer::Debate(moves)),
        Ok(Ok(PromptOutcome::Later)) => later(),
        Ok(Err(source)) => Err(FileError { path: "the terminal".into(), source }.into()),
        Err(_) => Ok(ReviewAnswer::Interrupted),
    }
}

/// Returns the command that resumes the run or, if a cluster executes the run, shows it again.
fn resume_command(run: &Run, cluster: &ClusterArgs) -> String {
    format!("consulting resume {}{}", run.dir().display(), cluster_options(cluster))
}

fn report_interrupt(run: &Run, cluster: &ClusterArgs) -> ExitStatus {
    let command = resume_command(run, cluster);
    if is_on_cluster(cluster) {
        eprintln!("\nThe run continues on the cluster. To show it again, run: {command}");
    } else {
        eprintln!("\nInterrupted. No results were lost. To resume, run: {command}");
    }
    ExitStatus::Interrupted
}

/// Returns the exit status of a run. If the run is incomplete, prints that it is and, unless it ran on a cluster, the
/// command that retries the failed parts.
fn exit_status(run: &Run, cluster: &ClusterArgs, report: &Report) -> ExitStatus {
    if !report.is_incomplete() {
        return ExitStatus::Success;
    }
    if is_on_cluster(cluster) {
        eprintln!("The run is incomplete.");
        return ExitStatus::Incomplete;
    }
    let dir = run.dir().display();
    // Reads the limit from the run directory again, because it may have changed since `run` was opened.
    let limit = Run::open_unchecked(run.dir()).map(|it| it.manifest().limit).unwrap_or_default();
    let raise = match (limit.tokens, limit.money) {
        (None, None) => "",
        (Some(_), None) => "\nIf the budget is exhausted, raise it with --max-tokens N",
        (None, Some(_)) => "\nIf the budget is exhausted, raise it with --max-cost DOLLARS",
        (Some(_), Some(_)) => {
            "\nIf the budget is exhausted, raise it with --max-tokens N --max-cost DOLLARS"
        }
    };
    eprintln!("The run is incomplete. To try again, run: consulting resume {dir}{raise}");
    ExitStatus::Incomplete
}

fn print_result(run: &Run, report: &Report, output: OutputArgs) -> Result<(), CliError> {
    if output.json {
        print_json(&json!({ "folder": run.dir(), "report": report }), false)
    } else {
        Ok(print(&summary(report, run.dir()))?)
    }
}
