//! A difference is reported where it is, and nowhere else.

use graph_core::RunOptions;
use graph_trace::{Part, Trace, record};

use crate::graphs::{World, case, cases, tea};

async fn traced(name: &str, world: World) -> Trace {
    record(&case(name).plain, tea(), world, RunOptions::new()).await.trace
}

#[tokio::test]
async fn equal_runs_do_not_differ() {
    for case in cases() {
        let (a, b) = (traced(case.name, World::new(1)), traced(case.name, World::new(2)));
        let (a, b) = (a.await, b.await);
        assert_eq!(Trace::diff(&a, &b), None, "{}", case.name);
        assert_eq!(a, b);
    }
}

#[tokio::test]
async fn a_planted_change_is_found_where_it_is() {
    let before = traced("fan out", World::new(1)).await;
    for part in 1..=5 {
        let world = World::new(u64::from(part)).plant(part);
        let after = traced("fan out", world).await;
        let found = Trace::diff(&before, &after).unwrap();
        assert_eq!(found.place.way.len(), 1);
        assert_eq!(found.place.step(), Some(2));
        let task = found.place.way[0].task.as_ref().unwrap();
        assert_eq!((task.node.as_str(), task.nth, task.of), ("write", part as usize, 5));
        assert_eq!(found.part, Part::Write("drafts".into()));
        // Nothing else was done by anybody else.
        assert_eq!((found.after.steps, found.after.tasks), (1, 1));
        assert_eq!(found.after.fields.len(), 1);
        assert!(found.after.routes.is_empty() && found.after.ends.is_none());
        assert_eq!(found.after.effects, (15, 15));
    }
}

#[tokio::test]
async fn it_prints_for_people() {
    let before = traced("fan out", World::new(1)).await;
    let after = traced("fan out", World::new(1).plant(2)).await;
    let shown = Trace::diff(&before, &after).unwrap().to_string();
    assert_eq!(
        shown.lines().take(4).collect::<Vec<_>>(),
        [
            "first difference: step 2, task `write` (2nd of 5), what it writes to `drafts`",
            "  was: [\"all about part 2\"]",
            "  now: [\"all about part 2 (planted)\"]",
            "in all: 1 task in 1 step did something else",
        ],
    );
}

/// Changes a trace in one place and says where the difference is found.
async fn changed(name: &str, change: impl FnOnce(&mut Trace)) -> (String, Part, String) {
    let before = traced(name, World::new(1)).await;
    let mut after = before.clone();
    change(&mut after);
    let found = Trace::diff(&before, &after).unwrap();
    (found.place.to_string(), found.part.clone(), found.to_string())
}

#[tokio::test]
async fn every_part_is_looked_at() {
    let at = |place: &str, part: Part| (place.to_owned(), part);
    let check = |(place, part, _): (String, Part, String), expect: (String, Part)| {
        assert_eq!((place, part), expect);
    };
    let write = "step 2, task `write` (1st of 5)";
    let found = changed("fan out", |it| it.header.input = 1.into()).await;
    check(found, at("outside all steps", Part::Input));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].input = 9.into()).await;
    check(found, at(write, Part::Input));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].effects[1].result = 9.into());
    check(found.await, at(write, Part::Effect));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].retries.clear()).await;
    check(found, at(write, Part::Attempt));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].messages.clear()).await;
    check(found, at(write, Part::Said));
    let found = changed("fan out", |it| it.root.steps[2].tasks[0].error = Some("no".into())).await;
    check(found, at(write, Part::Error));
    let found = changed("fan out", |it| it.root.steps[1].tasks[0].sends[3].payload = 9.into());
    check(found.await, at("step 1, task `plan`", Part::Send));
    let found = changed("fan out", |it| drop(it.root.steps[2].tasks.pop())).await;
    check(found, at("step 2, task `write` (5th of 5)", Part::Task));
    let found = changed("fan out", |it| it.root.steps[3].state = None).await;
    check(found, at("step 3", Part::State("approved".into())));
    let found = changed("fan out", |it| drop(it.root.steps.pop())).await;
    check(found, at("step 3", Part::Graph));
    let found = changed("question", |it| it.root.steps[2].tasks[0].questions.clear()).await;
    check(found, at("step 2, task `approve` (1st of 2)", Part::Question));
}

#[tokio::test]
async fn what_happens_inside_is_found_inside() {
    let (place, part, _) = changed("loop", |it| {
        it.root.steps[4].tasks[0].graphs[0].steps[1].tasks[0].writes[0].value = "else".into();
    })
    .await;
    assert_eq!(place, "step 4, task `review`, inside it step 1, task `judge` (1st of 2)");
    assert_eq!(part, Part::Write("notes".into()));
}

#[tokio::test]
async fn another_way_is_told() {
    let (place, part, shown) = changed("loop", |it| {
        it.root.steps[4].tasks[0].routes.clear();
        it.root.steps.truncate(5);
    })
    .await;
    assert_eq!((place.as_str(), part), ("step 4, task `review`", Part::Route));
    assert!(shown.contains("step 4, task `review` leads to nothing, not `draft`"), "{shown}");
    assert!(shown.contains("in all: 3 tasks in 3 steps did something else"), "{shown}");
    assert!(shown.contains("calls outside, not 6"), "{shown}");
}
