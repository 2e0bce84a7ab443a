//! Tests the benchmark results for problems with known answers.

use reflexion_graph::{
    Limits, Strategy,
    bench::{self, Options, Problem, Summary},
    executor::Options as ExecutorOptions,
    graph::Deps,
    offline,
};

use crate::executor;

async fn summary(problems: &[Problem], strategy: Strategy, samples: usize) -> Summary {
    let (executor, _folder) =
        executor(ExecutorOptions { pool: 3, cpus: 2.0, ..ExecutorOptions::default() }).await;
    let llm = offline::model_for(problems);
    let deps = Deps::new(llm, executor.clone());
    // Only the one program that never ends exceeds this timeout.
    let limits = Limits { timeout: 40.0, ..Limits::default() };
    let options = Options { max_attempts: 3, strategy, limits, samples, concurrency: 4 };
    let results = bench::run(problems, &deps, options, |_| {}).await.unwrap();
    executor.close().await;
    Summary::of(&results, 3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_problems_are_solved_at_the_known_rates() {
    let problems = Problem::builtin();
    assert!(problems.len() >= 40);
    let ids: std::collections::BTreeSet<_> = problems.iter().map(|it| &it.id).collect();
    assert_eq!(ids.len(), problems.len());
    assert!(problems.iter().all(|it| it.tests.is_some() || it.expect.is_some()));

    let summary = summary(&problems, Strategy::Reflect, 1).await;
    assert_eq!((summary.problems, summary.samples, summary.broken), (44, 1, 0));
    assert_eq!(summary.solved_by, [30, 38, 41]);
    assert_eq!((summary.pass_at_1, summary.pass_at_k), (30.0 / 44.0, 41.0 / 44.0));
    assert_eq!(summary.unsolved, ["download", "sudden-end", "wrong-square"]);
    // Of the 44 problems, 30 need one attempt, 8 need two, 3 need three, and 3 fail three times. This makes 30 × 1 + 8
    // × 2 + 6 × 3 = 64 attempts, and one critique for each of the 8 × 1 + 3 × 2 + 3 × 3 = 23 failed attempts.
    assert_eq!(summary.attempts, 64.0 / 44.0);
    assert_eq!(summary.calls, 64 + 23);
    assert_eq!(summary.failures.values().sum::<usize>(), 23);
    assert_eq!((summary.failures["timeout"], summary.failures["syntax"]), (1, 1));
    assert!(summary.latency_p50_ms > 0 && summary.latency_p50_ms <= summary.latency_p95_ms);
    assert!(summary.input_tokens > 0 && summary.output_tokens > 0);
    assert!(summary.text().contains("pass@1         68.2 %"), "{}", summary.text());
}

#[tokio::test]
async fn samples_are_independent_and_resampling_calls_no_critic() {
    let selected = ["median", "gcd"];
    let problems: Vec<_> =
        Problem::builtin().into_iter().filter(|it| selected.contains(&&*it.id)).collect();
    let summary = summary(&problems, Strategy::Resample, 2).await;
    assert_eq!((summary.problems, summary.samples), (2, 2));
    assert_eq!(summary.solved_by, [2, 4, 4]);
    assert_eq!(summary.independent, [0.5, 0.5]);
    // Each of the two `median` sessions requests two programs, and each of the two `gcd` sessions requests one.
    assert_eq!(summary.calls, 6);
}

/// Problems in the format of HumanEval. The scripted model answers with the canonical solutions.
const HUMANEVAL_PROBLEMS: &str = r#"{"task_id": "Own/0", "prompt": "def twice(n: int) -> int:\n    \"\"\"Doubles.\n    >>> twice(2)\n    4\n    \"\"\"\n", "entry_point": "twice", "canonical_solution": "    return 2 * n\n", "test": "def check(candidate):\n    assert candidate(3) == 6\n"}
{"task_id": "Own/1", "prompt": "def half(n):\n", "entry_point": "half", "canonical_solution": "    return n\n", "test": "def check(candidate):\n    assert candidate(4) == 2\n"}"#;

#[tokio::test]
async fn humaneval_problems_are_supported() {
    let problems = Problem::parse_lines(HUMANEVAL_PROBLEMS).unwrap();
    let summary = summary(&problems, Strategy::Reflect, 1).await;
    assert_eq!((summary.problems, summary.broken), (2, 0));
    assert_eq!((summary.solved_by, summary.unsolved), (vec![1, 1, 1], vec!["Own/1".to_owned()]));
    assert!(Problem::parse_lines("{}").is_err());
}
