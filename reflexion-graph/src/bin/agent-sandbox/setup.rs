//! Converts arguments to configurations, and opens models and sandboxes.

use app_support::program::print;
use reflexion_graph::{
    Job, Limits, Strategy,
    executor::{Executor, Options},
    graph::Deps,
    language,
    models::{ModelChoice, RunBudget},
    run::{RunError, SandboxConfig},
    wheels::Wheels,
};

use crate::{
    args::{self, AttemptArgs, ModelArgs, SandboxArgs},
    error::{CliError, CommandStatus},
    view,
};

pub(crate) fn model_choice(args: &ModelArgs) -> Result<ModelChoice, CliError> {
    let found = ModelChoice::from_environment();
    let provider = args.provider.clone().unwrap_or(found.provider);
    let choice = ModelChoice { provider, model: args.model.clone() };
    choice.check()?;
    Ok(choice)
}

pub(crate) fn limits(args: &AttemptArgs) -> Limits {
    Limits { timeout: args.timeout, cpu_time: args.cpu_time, memory: args.memory }
}

/// Checks the arguments, so that invalid ones are reported before anything is started.
pub(crate) fn check(args: &AttemptArgs) -> Result<(), CliError> {
    let job = Job { limits: limits(args), ..Job::new("any").max_attempts(args.max_attempts) };
    Ok(job.check().map_err(RunError::from)?)
}

pub(crate) fn strategy(args: &AttemptArgs) -> Strategy {
    match args.strategy {
        args::Strategy::Reflect => Strategy::Reflect,
        args::Strategy::Resample => Strategy::Resample,
    }
}

pub(crate) fn sandbox_config(args: &SandboxArgs) -> SandboxConfig {
    SandboxConfig {
        backend: args.sandbox.clone(),
        pool: args.pool.into(),
        cpus: args.cpus,
        language: args.language.clone(),
        wheels: args.wheels.clone(),
    }
}

/// Builds the model, then opens the executor. In this order, a missing API key or an unknown price is reported before
/// any sandbox starts.
pub(crate) async fn deps(
    choice: &ModelChoice,
    budget: RunBudget,
    sandbox: &SandboxConfig,
    memory: u64,
) -> Result<Deps, CliError> {
    let llm = choice.build()?;
    budget.check(&llm)?;
    let executor = open_executor(sandbox, memory).await?;
    Ok(Deps::new(llm, executor))
}

pub(crate) async fn open_executor(
    sandbox: &SandboxConfig,
    memory: u64,
) -> Result<Executor, CliError> {
    let defaults = Options::default();
    let wheels = match &sandbox.wheels {
        None => Wheels::default(),
        Some(dir) => Wheels::open(dir)?,
    };
    let language = language::by_name(&sandbox.language)
        .ok_or_else(|| CliError::NoLanguage(sandbox.language.clone()))?;
    let options = Options {
        backend: sandbox.backend.clone(),
        pool: sandbox.pool,
        memory,
        cpus: sandbox.cpus,
        language,
        wheels,
        ..defaults
    };
    let executor = Executor::open(options).await?;
    if !executor.sandboxes().isolated() {
        eprintln!("{}", view::NOT_ISOLATED_WARNING);
    }
    if let Some(warning) = executor.sandboxes().report().memory_warning() {
        eprintln!("{}: {warning}", executor.sandboxes().backend());
    }
    Ok(executor)
}

/// Prints which back ends work on this machine and which provider is configured.
pub(crate) async fn doctor() -> Result<CommandStatus, CliError> {
    let mut text = String::new();
    for name in reflexion_graph::executor::BACKENDS {
        let options = Options { backend: Some((*name).to_owned()), pool: 1, ..Options::default() };
        match Executor::open(options).await {
            Ok(executor) => {
                text += &executor
                    .sandboxes()
                    .reports()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<String>();
                executor.close().await;
            }
            Err(error) => text += &format!("{name}: {error}\n"),
        }
    }
    let choice = ModelChoice::from_environment();
    text += &format!("\nModel provider: {}\n", choice.provider);
    print(&text)?;
    Ok(CommandStatus::Done)
}
