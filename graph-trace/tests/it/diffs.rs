//! Tests that differences are located exactly.

use graph_core::RunOptions;
use graph_trace::{DivergenceKind, Trace, record};

use crate::graphs::{TestEnv, case, cases, tea};

async fn traced(name: &str, env: TestEnv) -> Trace {
    record(&case(name).plain, tea(), env, RunOptions::new()).await.trace
}

#[tokio::test]
async fn equal_runs_do_not_differ() {
    for case in cases() {
        let (a, b) = (traced(case.name, TestEnv::new(1)), traced(case.name, TestEnv::new(2)));
        let (a, b) = (a.await, b.await);
        assert_eq!(Trace::diff(&a, &b), None, "{}", case.name);
        assert_eq!(a, b);
    }
}

#[tokio::test]
async fn a_changed_write_is_located() {
    let before = traced("fan out", TestEnv::new(1)).await;
    for part in 1..=5 {
        let env = TestEnv::new(u64::from(part)).with_changed_draft(part);
        let after = traced("fan out", env).await;
        let found = Trace::diff(&before, &after).unwrap();
        assert_eq!(found.path.steps.len(), 1);
        assert_eq!(found.path.step(), Some(2));
        let task = found.path.steps[0].task.as_ref().unwrap();
        assert_eq!((task.node.as_str(), task.position, task.n_tasks), ("write", part as usize, 5));
        assert_eq!(found.kind, DivergenceKind::Write("drafts".into()));
        // No other task acted differently.
        assert_eq!((found.summary.steps, found.summary.tasks), (1, 1));
        assert_eq!(found.summary.fields.len(), 1);
        assert!(found.summary.routes.is_empty() && found.summary.ends.is_none());
        assert_eq!(found.summary.effects, (15, 15));
    }
}

#[tokio::test]
async fn a_divergence_is_rendered_as_text() {
    let before = traced("fan out", TestEnv::new(1)).await;
    let after = traced("fan out", TestEnv::new(1).with_changed_draft(2)).await;
    let shown = Trace::diff(&before, &after).unwrap().to_string();
    assert_eq!(
        shown.lines().take(4).collect::<Vec<_>>(),
        [
            "first difference: step 2, task `write` (2nd of 5), write to `drafts`",
            "  was: [\"all about part 2\"]",
            "  now: [\"all about part 2 (changed)\"]",
            "total: 1 task in 1 step acted differently",
        ],
    );
}

/// Changes a trace. Returns the location and the kind of the resulting difference, and its text.
async fn changed(name: &str, change: impl FnOnce(&mut Trace)) -> (String, DivergenceKind, String) {
    let before = traced(name, TestEnv::new(1)).await;
    let mut after = before.clone();
    change(&mut after);
    let found = Trace::diff(&before, &after).unwrap();
    (found.path.to_string(), found.kind.clone(), found.to_string())
}

#[tokio::test]
async fn every_kind_of_difference_is_found() {
    let at = |path: &str, part: DivergenceKind| (path.to_owned(), part);
    let check = |(path, part, _): (String, DivergenceKind, String),
                 expect: (String, DivergenceKind)| {
        assert_eq!((path, part), expect);
    };
    let write = "step 2, task `write` (1st of 5)";
    let found = changed("fan out", |it| it.header.input = 1.into()).await;
    check(found, at("outside of the steps", DivergenceKind::Input));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].input = 9.into()).await;
    check(found, at(write, DivergenceKind::Input));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].effects[1].result = 9.into());
    check(found.await, at(write, DivergenceKind::Effect));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].retries.clear()).await;
    check(found, at(write, DivergenceKind::Attempt));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].messages.clear()).await;
    check(found, at(write, DivergenceKind::StreamItem));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].error = Some("no".into())).await;
    check(found, at(write, DivergenceKind::Error));
    let found = changed("fan out", |it| it.root.steps[1].tasks[0].sends[3].payload = 9.into());
    check(found.await, at("step 1, task `plan`", DivergenceKind::Send));
    let found = changed("fan out", |it| drop(it.root.steps[2].tasks.pop())).await;
    check(found, at("step 2, task `write` (5th of 5)", DivergenceKind::Task));
    let found = changed("fan out", |it| it.root.steps[3].state = None).await;
    check(found, at("step 3", DivergenceKind::State("approved".into())));
    let found = changed("fan out", |it| drop(it.root.steps.pop())).await;
    check(found, at("step 3", DivergenceKind::Graph));
    let found = changed("question", |it| it.root.steps[2].tasks[0].interrupts.clear()).await;
    check(found, at("step 2, task `approve` (1st of 2)", DivergenceKind::Interrupt));
}

#[tokio::test]
async fn a_difference_in_a_subgraph_is_located_there() {
    let (path, part, _) = changed("loop", |it| {
        it.root.steps[4].tasks[0].graphs[0].steps[1].tasks[0].writes[0].value = "else".into();
    })
    .await;
    assert_eq!(path, "step 4, task `review`, subgraph step 1, task `judge` (1st of 2)");
    assert_eq!(part, DivergenceKind::Write("notes".into()));
}

#[tokio::test]
async fn changed_routes_are_summarised() {
    let (path, part, shown) = changed("loop", |it| {
        it.root.steps[4].tasks[0].routes.clear();
        it.root.steps.truncate(5);
    })
    .await;
    assert_eq!((path.as_str(), part), ("step 4, task `review`", DivergenceKind::Route));
    assert!(
        shown.contains("step 4, task `review` routes to nothing instead of `draft`"),
        "{shown}"
    );
    assert!(shown.contains("total: 3 tasks in 3 steps acted differently"), "{shown}");
    assert!(shown.contains("external calls instead of 6"), "{shown}");
}
