//! Time travel: a thread's history, and branches from older checkpoints.

use graph_core::{Context, HistoryFilter, RunOptions, Thread, ThreadState, checkpoint::Source};
use serde_json::json;

use crate::support::{
    Probe, Trail, TrailUpdate, ask, chain, diamond, graph, path_of, thread_of, trail, visited,
};

async fn completed_thread<const N: usize>(
    names: [&'static str; N],
    probe: &Probe,
) -> Thread<Trail, Probe> {
    let thread = thread_of(chain(names), probe);
    let outcome = thread.run(Trail::default()).await.expect("no node fails");
    assert!(outcome.is_done());
    probe.trace();
    thread
}

fn at_step(history: &[ThreadState<Trail>], step: i64) -> &ThreadState<Trail> {
    history.iter().find(|it| it.step == step).expect("the step is in the history")
}

#[tokio::test]
async fn the_history_contains_each_step() {
    let thread = completed_thread(["a", "b"], &Probe::default()).await;
    let history = thread.history(None).await.unwrap();
    let shown: Vec<_> =
        history.iter().map(|it| (it.step, it.values.path.len(), it.next.join(" "))).collect();
    let expect = [(2, 2, ""), (1, 1, "b"), (0, 0, "a"), (-1, 0, "__start__")];
    assert_eq!(shown, expect.map(|(step, path, next)| (step, path, next.to_owned())));
    let ran = &at_step(&history, 1).tasks[0];
    assert_eq!(ran.node, "b");
    assert_eq!(ran.result.as_ref().unwrap()[0].value, json!(["b"]));
    assert!(history.windows(2).all(|it| it[0].id > it[1].id));
    assert!(history.windows(2).all(|it| it[0].created_at >= it[1].created_at));
}

#[tokio::test]
async fn the_history_can_be_limited() {
    let thread = completed_thread(["a", "b"], &Probe::default()).await;
    let newest = thread.history(Some(2)).await.unwrap();
    assert_eq!(newest.iter().map(|it| it.step).collect::<Vec<_>>(), [2, 1]);
    assert!(thread.history(Some(0)).await.unwrap().is_empty());
    assert_eq!(thread.history(Some(99)).await.unwrap().len(), 4);
}

#[tokio::test]
async fn continuing_from_an_old_checkpoint_creates_a_branch() {
    let probe = Probe::default();
    let thread = completed_thread(["a", "b", "c"], &probe).await;
    let history = thread.history(None).await.unwrap();
    let old = at_step(&history, 1).id;
    let outcome = thread.at(old).proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "c"]));
    assert_eq!(probe.trace(), "3: b | 4: c");

    let after = thread.history(None).await.unwrap();
    let fork = after.iter().find(|it| it.source == Source::Fork).unwrap();
    assert_eq!(fork.parent, Some(old));
    assert_eq!(after.len(), history.len() + 3);
    for state in &history {
        assert!(after.iter().any(|it| it.id == state.id), "the first branch is kept");
    }
}

#[tokio::test]
async fn resume_keeps_the_origin_and_a_branch_changes_it() {
    async fn origin(_: &Trail, cx: &Context<Probe>) -> TrailUpdate {
        visited(&cx.origin().to_string())
    }
    let graph = graph().node_as("a", origin).node_as("b", ask).node_as("c", origin);
    let thread = thread_of(graph.sequence(["a", "b", "c"]), &Probe::default());
    assert!(!thread.run(Trail::default()).await.unwrap().is_done());
    let first = thread.resume("yes").await.unwrap().into_state().path;
    assert_eq!(first[2], first[0]);

    let old = thread.history(HistoryFilter::new().next("c").limit(1)).await.unwrap()[0].id;
    let branch = thread.at(old).proceed().await.unwrap().into_state().path;
    assert_eq!(branch[0], first[0]);
    assert_ne!(branch[2], first[0]);
}

#[tokio::test]
async fn continuing_from_an_old_checkpoint_reruns_finished_nodes() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    probe.fail_next("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let failed = thread.state().await.unwrap().unwrap().id;
    assert!(thread.proceed().await.unwrap().is_done());
    probe.trace();
    let outcome = thread.at(failed).proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "c", "d"]));
    assert_eq!(probe.trace(), "3: b c | 4: d");
}

#[tokio::test]
async fn fresh_input_at_an_old_checkpoint_starts_from_its_state() {
    let probe = Probe::default();
    let thread = completed_thread(["a", "b"], &probe).await;
    let old = at_step(&thread.history(None).await.unwrap(), 1).id;
    let outcome = thread.at(old).run(Trail::update().path(["new".to_owned()])).await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "new", "a", "b"]));
    assert_eq!(
        path_of(&thread).await,
        ["a", "new", "a", "b"],
        "the branch becomes the thread's head"
    );
}

#[tokio::test]
async fn a_checkpoint_shows_the_step_that_followed() {
    let thread = completed_thread(["a", "b"], &Probe::default()).await;
    let old = at_step(&thread.history(None).await.unwrap(), 1).id;
    let state = thread.at(old).state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a"]));
    assert_eq!(state.next, ["b"]);
    assert!(state.tasks[0].result.is_some());
}

#[tokio::test]
async fn an_old_checkpoint_can_be_edited() {
    let probe = Probe::default();
    let thread = completed_thread(["a", "b"], &probe).await;
    let old = at_step(&thread.history(None).await.unwrap(), 1).id;
    let update = Trail::update().note("edited");
    let edited = thread.at(old).update_state(update, graph_core::AsNode::node("a")).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.id, state.parent), (edited, Some(old)));
    assert_eq!(state.values, Trail { note: "edited".into(), ..trail(["a"]) });
    assert_eq!(state.next, ["b"]);
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.trace(), "3: b");
}

#[tokio::test]
async fn a_reused_run_id_does_not_drop_new_input() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a"]), &probe).with_options(RunOptions::new().run_id("same"));
    assert!(thread.run(trail(["1"])).await.unwrap().is_done());
    let error = thread.run(trail(["2"])).await.unwrap_err();
    let message = "run id `same` was already used on thread `t` with another input; use a new id for a new run";
    assert_eq!(error.to_string(), message);
}
