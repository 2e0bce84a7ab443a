//! Benchmark that measures how many problems are solved, in how many attempts, at what cost and how fast.

mod measure;
mod summary;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use graph_core::{BuildError, CompiledGraph, RunError, RunOptions};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, task::JoinSet};

pub use measure::{SandboxTimings, measure};
pub use summary::{Summary, pass_at_k};

use crate::{
    graph::{self, Deps},
    job::{Job, JobError, Limits, Strategy},
    state::Session,
};

/// A task with the checks for its solution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Unique name of the problem.
    pub id: String,
    /// The task given to the model.
    pub task: String,
    /// Assertions that are executed after the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<String>,
    /// Output that the program must print.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// Programs that the scripted model returns, one per attempt. The last program is also returned for all later
    /// attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
}

/// Contents of a TOML file that lists problems.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Problems {
    problem: Vec<Problem>,
}

impl Problem {
    /// Returns the built-in problems.
    pub fn builtin() -> Vec<Self> {
        Self::parse(include_str!("../data/problems.toml")).expect("the built-in problems are valid")
    }

    /// Parses problems from TOML.
    pub fn parse(text: &str) -> Result<Vec<Self>, toml::de::Error> {
        Ok(toml::from_str::<Problems>(text)?.problem)
    }

    /// Parses problems in the format of HumanEval: one JSON object per line.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        let lines = text.lines().filter(|it| !it.trim().is_empty());
        lines.map(|it| Ok(serde_json::from_str::<HumanEvalProblem>(it)?.into())).collect()
    }

    fn job(&self, options: &Options) -> Job {
        Job {
            task: self.task.trim().to_owned(),
            tests: self.tests.clone(),
            expect: self.expect.clone(),
            max_attempts: options.max_attempts,
            strategy: options.strategy,
            limits: options.limits,
        }
    }
}

/// A HumanEval problem: the signature and docstring of a function, and a test for the function.
#[derive(Debug, Deserialize)]
struct HumanEvalProblem {
    task_id: String,
    prompt: String,
    entry_point: String,
    test: String,
    #[serde(default)]
    canonical_solution: Option<String>,
}

impl From<HumanEvalProblem> for Problem {
    fn from(it: HumanEvalProblem) -> Self {
        let prompt = it.prompt.trim_end();
        Self {
            id: it.task_id,
            task: format!("Write this function completely, with all imports it needs:\n\n{prompt}"),
            tests: Some(format!("{}\n\ncheck({})\n", it.test, it.entry_point)),
            expect: None,
            answers: it
                .canonical_solution
                .iter()
                .map(|end| format!("{}{end}", it.prompt))
                .collect(),
        }
    }
}

/// Options of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum number of attempts per session.
    pub max_attempts: u32,
    /// What to do after a failed attempt.
    pub strategy: Strategy,
    /// Resource limits for each execution.
    pub limits: Limits,
    /// Number of independent sessions per problem.
    pub samples: usize,
    /// Maximum number of concurrent sessions.
    pub concurrency: usize,
}

/// Result of one session.
#[derive(Clone, Debug)]
pub struct SessionResult {
    /// Id of the problem.
    pub problem: String,
    /// Final state of the session, or the error that aborted it.
    pub session: Result<Session, String>,
    /// Duration of the session.
    pub elapsed: Duration,
}

/// The error returned when a benchmark cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A problem is invalid, either by itself or in combination with the given options.
    #[error("problem `{id}`: {problem}")]
    Job {
        /// Id of the problem.
        id: String,
        /// What is invalid.
        problem: JobError,
    },
    /// The graph does not compile.
    #[error(transparent)]
    Graph(#[from] BuildError),
}

/// Checks that all problems are valid. Calls no model.
pub fn check(problems: &[Problem], options: &Options) -> Result<(), BenchError> {
    problems.iter().try_for_each(|it| {
        let bad = |problem| BenchError::Job { id: it.id.clone(), problem };
        it.job(options).check().map_err(bad)
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
        let (id, job) = (problem.id.clone(), problem.job(&options));
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
    Ok(graph.invoke(session, deps, options).await?.into_state())
}
