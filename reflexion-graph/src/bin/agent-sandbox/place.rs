//! From arguments to where programs run and who writes them.

use reflexion_graph::{
    Job, Limits, Strategy,
    graph::Deps,
    language,
    models::{Allowance, Choice},
    run::{Place, RunProblem},
    wheels::Wheels,
    workshop::{Options, Workshop},
};

use crate::{
    args::{self, PlaceArgs, TryingArgs, VoiceArgs},
    out::say,
    problem::{Ending, Problem},
    view,
};

pub(crate) fn choice(args: &VoiceArgs) -> Result<Choice, Problem> {
    let found = Choice::by_environment();
    let provider = args.provider.clone().unwrap_or(found.provider);
    let choice = Choice { provider, model: args.model.clone() };
    choice.check()?;
    Ok(choice)
}

pub(crate) fn limits(args: &TryingArgs) -> Limits {
    Limits { timeout: args.timeout, cpu_time: args.cpu_time, memory: args.memory }
}

/// Refuses what cannot be done, or should not, before anything is started for it.
pub(crate) fn check(args: &TryingArgs) -> Result<(), Problem> {
    let job = Job { limits: limits(args), ..Job::new("any").max_attempts(args.max_attempts) };
    Ok(job.check().map_err(RunProblem::from)?)
}

pub(crate) fn strategy(args: &TryingArgs) -> Strategy {
    match args.strategy {
        args::Strategy::Reflect => Strategy::Reflect,
        args::Strategy::Resample => Strategy::Resample,
    }
}

pub(crate) fn place(args: &PlaceArgs) -> Place {
    Place {
        backend: args.sandbox.clone(),
        pool: args.pool.into(),
        cpus: args.cpus,
        language: args.language.clone(),
        wheels: args.wheels.clone(),
    }
}

/// Opens the workshop and makes the models. The models first: a missing key, or price, is said before anything is started.
pub(crate) async fn deps(
    choice: &Choice,
    allowance: Allowance,
    place: &Place,
    memory: u64,
) -> Result<Deps, Problem> {
    let llm = choice.make()?;
    allowance.check(&llm)?;
    let workshop = workshop(place, memory).await?;
    Ok(Deps::new(llm, workshop))
}

pub(crate) async fn workshop(place: &Place, memory: u64) -> Result<Workshop, Problem> {
    let defaults = Options::default();
    let wheels = match &place.wheels {
        None => Wheels::default(),
        Some(folder) => Wheels::open(folder)?,
    };
    let language = language::by_name(&place.language)
        .ok_or_else(|| Problem::NoLanguage(place.language.clone()))?;
    let options = Options {
        backend: place.backend.clone(),
        pool: place.pool,
        memory,
        cpus: place.cpus,
        language,
        wheels,
        ..defaults
    };
    let workshop = Workshop::open(options).await?;
    if !workshop.sandboxes().isolated() {
        eprintln!("{}", view::NOT_ISOLATED);
    }
    Ok(workshop)
}

/// Says which sandboxes this machine offers, and who would write.
pub(crate) async fn doctor() -> Result<Ending, Problem> {
    let mut text = String::new();
    for name in reflexion_graph::workshop::BACKENDS {
        let options = Options { backend: Some((*name).to_owned()), pool: 1, ..Options::default() };
        match Workshop::open(options).await {
            Ok(workshop) => {
                text += &workshop
                    .sandboxes()
                    .reports()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<String>();
                workshop.close().await;
            }
            Err(problem) => text += &format!("{name}: {problem}\n"),
        }
    }
    let choice = Choice::by_environment();
    text += &format!("\nPrograms would be written by: {}\n", choice.provider);
    say(&text)?;
    Ok(Ending::Done)
}
