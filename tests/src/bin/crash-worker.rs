//! A worker process that tests kill.
//!
//! `crash-worker --saver sqlite:PATH|URL --thread T --durability sync|async|exit --effects FILE --acks FILE [--plan
//! live|before:N|after:N|drop:N] [--wait SECONDS]` runs the job on the thread to its end and prints the result.
//! `crash-worker --saver .. --thread T --agents single|reviewed|swarm|supervisor|delegated --effects FILE --durability
//! .. --acks FILE [--plan ..] [--wait SECONDS]` runs agents whose tools write to FILE. `crash-worker --saver ..
//! --thread T --start RUN --durability .. --acks FILE [--plan ..] [--wait SECONDS]` starts a run with an id.
//! `crash-worker --saver .. --thread T --race leased|unleased|graph|run-id` reads commands from standard input.
#![expect(clippy::print_stdout, reason = "prints the result to stdout")]

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{self, BufRead},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use graph_core::{Checkpointer, Durability, RunError, checkpoint::CheckpointError};
use graph_tests::crash::{
    agent_job::{self, AgentJob, AgentReport},
    job::{self, EffectLog},
    killing_hook::{CrashPlan, KillingHook, PlanError},
    location::StoreLocation,
    race::{RaceMode, RaceWorker},
    repeated_start::{self, StartReport},
    worker::{WorkerReport, durability_arg},
};

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match run(&Args::read()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Command-line arguments. Each name is followed by a value.
struct Args(BTreeMap<String, String>);

impl Args {
    fn read() -> Self {
        let mut values = BTreeMap::new();
        let mut args = env::args().skip(1);
        while let (Some(name), Some(value)) = (args.next(), args.next()) {
            values.insert(name, value);
        }
        Self(values)
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn get(&self, name: &str) -> Result<&str, String> {
        self.find(name).ok_or_else(|| format!("missing argument {name}"))
    }

    fn plan(&self) -> Result<CrashPlan, PlanError> {
        self.find("--plan").map_or(Ok(CrashPlan::NoCrash), str::parse)
    }

    fn durability(&self) -> Result<Durability, String> {
        let name = self.get("--durability")?;
        let all = [Durability::Sync, Durability::Async, Durability::Exit];
        let named = all.into_iter().find(|it| durability_arg(*it) == name);
        named.ok_or_else(|| format!("invalid durability `{name}`; expected sync, async or exit"))
    }
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let location = StoreLocation::parse(args.get("--saver")?)
        .ok_or("invalid --saver; expected sqlite:PATH or postgresql://...")?;
    let saver = location.open().await?;
    if let Some(job) = args.find("--agents") {
        let job = AgentJob::parse(job);
        let job = job
            .ok_or("invalid --agents; expected single, reviewed, swarm, supervisor or delegated")?;
        return run_agents(args, saver, job).await;
    }
    if let Some(run_id) = args.find("--start") {
        return start(args, saver, run_id).await;
    }
    let Some(mode) = args.find("--race") else { return work(args, saver).await };
    let mode = RaceMode::parse(mode);
    race(args, saver, mode.ok_or("invalid --race; expected leased, unleased, graph or run-id")?)
        .await
}

async fn work(args: &Args, saver: Arc<dyn Checkpointer>) -> Result<(), Box<dyn Error>> {
    let effect_log = EffectLog::new(args.get("--effects")?);
    let killing_hook = KillingHook::before(saver, args.plan()?, args.get("--acks")?);
    let (thread, durability) = (args.get("--thread")?, args.durability()?);
    let run =
        || job::finish(Arc::new(killing_hook.clone()), thread, durability, effect_log.clone());
    let job = retry_while_busy(args, run).await?;
    let report = WorkerReport { job, n_writes: killing_hook.hook().n_writes() };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

async fn start(
    args: &Args,
    saver: Arc<dyn Checkpointer>,
    run_id: &str,
) -> Result<(), Box<dyn Error>> {
    let saver = KillingHook::before(saver, args.plan()?, args.get("--acks")?);
    let thread = repeated_start::thread(Arc::new(saver.clone()), args.get("--thread")?);
    let durability = args.durability()?;
    let run = || repeated_start::start(&thread, run_id, durability);
    let orders = retry_while_busy(args, run).await?;
    let report = StartReport { orders, n_writes: saver.hook().n_writes() };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Repeats a run while another process holds its thread, for at most the time given as `--wait`.
async fn retry_while_busy<T, F: Future<Output = Result<T, RunError>>>(
    args: &Args,
    run: impl Fn() -> F,
) -> Result<T, Box<dyn Error>> {
    let wait = Duration::from_secs(args.find("--wait").map_or(Ok(0), str::parse)?);
    let started = Instant::now();
    loop {
        match run().await {
            Err(RunError::Checkpoint(CheckpointError::Busy { .. })) if started.elapsed() < wait => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            result => return Ok(result?),
        }
    }
}

async fn run_agents(
    args: &Args,
    saver: Arc<dyn Checkpointer>,
    job: AgentJob,
) -> Result<(), Box<dyn Error>> {
    let saver = KillingHook::before(saver, args.plan()?, args.get("--acks")?);
    let agent = job.compile(Arc::new(saver.clone()), Path::new(args.get("--effects")?))?;
    let (thread, durability) = (args.get("--thread")?, args.durability()?);
    let run = || agent_job::finish(&agent, thread, durability);
    let report = retry_while_busy(args, run).await?;
    let report = AgentReport { n_writes: saver.hook().n_writes(), ..report };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

async fn race(
    args: &Args,
    saver: Arc<dyn Checkpointer>,
    mode: RaceMode,
) -> Result<(), Box<dyn Error>> {
    let mut worker = RaceWorker::new(saver, args.get("--thread")?, mode);
    for command in io::stdin().lock().lines() {
        println!("{}", worker.handle_command(&command?).await);
    }
    Ok(())
}
