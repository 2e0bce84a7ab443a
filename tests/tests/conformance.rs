//! Tests that all recorded cases have the same answers as in LangGraph, with each saver.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use graph_tests::{
    Case, Execution, SaverKind, compare,
    eager::{self, Equality},
    postgres, read, run,
};

/// Number of cases that run concurrently. They mostly wait for a disk or a server.
const N_WORKERS: usize = 4;

#[track_caller]
fn check(file: &str, saver: SaverKind, execution: &Execution) {
    check_with(file, |case| difference(case, saver, execution));
}

/// Checks all cases of a file with a function that describes how a case differs.
#[track_caller]
fn check_with(file: &str, difference: impl Fn(&Case) -> Option<String> + Sync) {
    let difference = &difference;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/conformance").join(file);
    let cases = read(&path).expect("the fixtures are part of the repository");
    let share = cases.len().div_ceil(N_WORKERS);
    let differing: Vec<String> = thread::scope(|scope| {
        let work =
            |cases: &[Case]| -> Vec<String> { cases.iter().filter_map(difference).collect() };
        let workers: Vec<_> = cases.chunks(share).map(|it| scope.spawn(move || work(it))).collect();
        workers
            .into_iter()
            .flat_map(|it| it.join().expect("a case that panics only ends its own thread"))
            .collect()
    });
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

fn difference(case: &Case, saver: SaverKind, execution: &Execution) -> Option<String> {
    match run(case, saver, execution).map(|got| compare(case, &got)) {
        Ok(difference) => difference.map(|it| format!("{}: {it}", case.id)),
        Err(error) => Some(format!("{}: {error}", case.id)),
    }
}

/// Declares a module with one test per saver, each of which checks all cases of a file.
macro_rules! cases {
    ($module:ident, $file:literal) => {
        mod $module {
            use super::*;

            #[test]
            fn match_langgraph_in_memory() {
                check($file, SaverKind::Memory, &Execution::Engine);
            }

            #[test]
            fn match_langgraph_with_tasks_in_another_process() {
                check($file, SaverKind::Memory, &Execution::RemoteTasks);
            }

            #[test]
            fn match_langgraph_on_sqlite() {
                check($file, SaverKind::Sqlite, &Execution::Engine);
            }

            #[test]
            fn match_langgraph_on_postgres() {
                if postgres::shared().is_some() {
                    check($file, SaverKind::Postgres, &Execution::Engine);
                }
            }
        }
    };
}

cases!(handwritten_cases, "hand.jsonl");
cases!(random_cases, "random.jsonl");
cases!(regression_cases, "found.jsonl");

/// `cargo xtask test` runs the other files with eager graphs.
#[test]
fn eager_graphs_give_the_same_answers() {
    let n_ahead = AtomicUsize::new(0);
    check_with("hand.jsonl", |case| match eager::check(case, SaverKind::Memory) {
        Ok(equality) => {
            n_ahead.fetch_add(usize::from(equality == Equality::RanAhead), Ordering::Relaxed);
            None
        }
        Err(error) => Some(format!("{}: {error}", case.id)),
    });
    let n_ahead = n_ahead.into_inner();
    assert!(n_ahead >= 10, "tasks of only {n_ahead} cases ran ahead");
}
