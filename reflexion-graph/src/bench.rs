//! The benchmark: how many problems are solved, in how many attempts, at what cost and how fast.

mod measure;
mod summary;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use graph_core::{BuildError, CompiledGraph, RunError, RunOptions};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, task::JoinSet};

pub use measure::{Measured, measure};
pub use summary::{Summary, pass_at_k};

use crate::{
    graph::{self, Deps},
    job::{BadJob, Job, Limits, Strategy},
    state::Session,
};

/// A problem with tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// What it is called.
    pub id: String,
    /// The task.
    pub task: String,
    /// What has to hold behind the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<String>,
    /// What it has to print.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// What the scripted model answers, attempt by attempt; the last answer stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
}

/// A file of problems.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Problems {
    problem: Vec<Problem>,
}

impl Problem {
    /// The problems that come with the program.
    pub fn builtin() -> Vec<Self> {
        Self::parse(include_str!("../data/problems.toml")).expect("a test reads it")
    }

    /// Reads a file of problems, in TOML.
    pub fn parse(text: &str) -> Result<Vec<Self>, toml::de::Error> {
        Ok(toml::from_str::<Problems>(text)?.problem)
    }

    /// Reads a file of problems as HumanEval has them: a line of JSON each.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        let lines = text.lines().filter(|it| !it.trim().is_empty());
        lines.map(|it| Ok(serde_json::from_str::<Begun>(it)?.into())).collect()
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

/// A problem of HumanEval: the beginning of a function, and a test of it.
#[derive(Debug, Deserialize)]
struct Begun {
    task_id: String,
    prompt: String,
    entry_point: String,
    test: String,
    #[serde(default)]
    canonical_solution: Option<String>,
}

impl From<Begun> for Problem {
    fn from(it: Begun) -> Self {
        let prompt = it.prompt.trim_end();
        Self {
            id: it.task_id,
            task: format!("Write the whole of this function, with what it needs:\n\n{prompt}"),
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

/// How problems are tried.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Attempts of each session.
    pub max_attempts: u32,
    /// What happens after a failure.
    pub strategy: Strategy,
    /// What an execution may use.
    pub limits: Limits,
    /// Sessions of each problem, independent of each other.
    pub samples: usize,
    /// Sessions at once.
    pub at_once: usize,
}

/// What one session of a problem came to.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The problem.
    pub problem: String,
    /// How the session ended, or why it did not.
    pub session: Result<Session, String>,
    /// How long it took.
    pub took: Duration,
}

/// Why problems cannot be tried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchProblem {
    /// One of them cannot be, as it is or with these limits.
    #[error("problem `{id}`: {problem}")]
    Job {
        /// Which.
        id: String,
        /// Why not.
        problem: BadJob,
    },
    /// The graph does not compile.
    #[error(transparent)]
    Graph(#[from] BuildError),
}

/// Refuses problems that cannot be tried: before a model is paid for the others.
pub fn check(problems: &[Problem], options: &Options) -> Result<(), BenchProblem> {
    problems.iter().try_for_each(|it| {
        let bad = |problem| BenchProblem::Job { id: it.id.clone(), problem };
        it.job(options).check().map_err(bad)
    })
}

/// Tries all problems, and tells of each session that has ended.
pub async fn run(
    problems: &[Problem],
    deps: &Deps,
    options: Options,
    mut tell: impl FnMut(&Tried),
) -> Result<Vec<Tried>, BenchProblem> {
    check(problems, &options)?;
    let graph = graph::unstored()?;
    let turns = Arc::new(Semaphore::new(options.at_once.max(1)));
    let mut sessions = JoinSet::new();
    let each = problems.iter().flat_map(|it| std::iter::repeat_n(it, options.samples.max(1)));
    for (idx, problem) in each.enumerate() {
        let (id, job) = (problem.id.clone(), problem.job(&options));
        let (graph, deps, turns) = (graph.clone(), deps.clone(), turns.clone());
        sessions.spawn(async move {
            let _turn = turns.acquire().await;
            let started = Instant::now();
            let session = solve(&graph, job, deps).await.map_err(|error| error.to_string());
            (idx, Tried { problem: id, session, took: started.elapsed() })
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = sessions.join_next().await {
        let (idx, tried) = ended.expect("the graph turns panics of its nodes into errors");
        tell(&tried);
        all.push((idx, tried));
    }
    all.sort_by_key(|it| it.0);
    Ok(all.into_iter().map(|it| it.1).collect())
}

async fn solve(
    graph: &CompiledGraph<Session, Deps>,
    job: Job,
    deps: Deps,
) -> Result<Session, RunError> {
    let options = RunOptions::new().limit(graph::most_steps(&job));
    let session = Session { job, ..Session::default() };
    Ok(graph.invoke(session, deps, options).await?.into_state())
}
