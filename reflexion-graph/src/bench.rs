//! Benchmark that measures how many problems are solved, in how many attempts, at what cost and how fast.

mod measure;
mod problem;
mod session_result;
mod summary;

use std::{sync::Arc, time::Instant};

use graph_core::{BuildError, CompiledGraph, RunError, RunOptions};
use tokio::{sync::Semaphore, task::JoinSet};

pub use measure::{SandboxTimings, measure};
pub use problem::Problem;
pub use session_result::SessionResult;
pub use summary::{Summary, pass_at_k};

use crate::{
    graph::{self, Deps},
    job::{Job, JobError, Limits, Strategy},
    state::Session,
};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub max_attempts: u32,
    /// Action to take after a failed attempt.
    pub strategy: Strategy,
    /// Resource limits for each execution.
    pub limits: Limits,
    /// Number of independent sessions per problem.
    pub samples: usize,
    /// Maximum number of concurrent sessions.
    pub concurrency: usize,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    #[error("problem `{id}`: {problem}")]
    Job { id: String, problem: JobError },
    #[error(transparent)]
    Graph(#[from] BuildError),
}

/// Checks that all problems are valid. Calls no model.
pub fn check(problems: &[Problem], options: &Options) -> Result<(), BenchError> {
    problems.iter().try_for_each(|it| {
        let bad = |problem| BenchError::Job { id: it.id.clone(), problem };
        job(it, options).check().map_err(bad)
    })
}

/// Runs all sessions and calls `on_result` after each one. The returned results are in the order of the problems.
pub async fn run(
    problems: &[Problem],
    deps: &Deps,
    options: Options,
    mut on_result: impl FnMut(&SessionResult),
) -> Result<Vec<SessionResult>, BenchError> {
    check(problems, &options)?;
    let graph = graph::without_checkpointer()?;
    let turns = Arc::new(Semaphore::new(options.concurrency.max(1)));
    let mut sessions = JoinSet::new();
    let each = problems.iter().flat_map(|it| std::iter::repeat_n(it, options.samples.max(1)));
    for (idx, problem) in each.enumerate() {
        let (id, job) = (problem.id.clone(), job(problem, &options));
        let (graph, deps, turns) = (graph.clone(), deps.clone(), turns.clone());
        sessions.spawn(async move {
            let _turn = turns.acquire().await;
            let started = Instant::now();
            let session = solve(&graph, job, deps).await.map_err(|error| error.to_string());
            (idx, SessionResult { problem: id, session, elapsed: started.elapsed() })
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = sessions.join_next().await {
        let (idx, result) = ended.expect("the graph turns panics of its nodes into errors");
        on_result(&result);
        all.push((idx, result));
    }
    all.sort_by_key(|it| it.0);
    Ok(all.into_iter().map(|it| it.1).collect())
}

async fn solve(
    graph: &CompiledGraph<Session, Deps>,
    job: Job,
    deps: Deps,
) -> Result<Session, RunError> {
    let options = RunOptions::new().step_limit(graph::max_steps(&job));
    let session = Session { job, ..Session::default() };
    Ok(graph.with(options).run(session, deps).await?.into_state())
}

fn job(problem: &Problem, options: &Options) -> Job {
    Job {
        task: problem.task.trim().to_owned(),
        tests: problem.tests.clone(),
        expect: problem.expect.clone(),
        max_attempts: options.max_attempts,
        strategy: options.strategy,
        limits: options.limits,
    }
}
