//! Continuing a thread after a failure: finished tasks do not run again.

use graph_core::{
    AsNode, Context, Durability, Goto, Input, MemorySaver, NodeError, Persistence, RunError,
    RunOptions, START, State, StateGraph,
    checkpoint::{CheckpointError, CheckpointId, Source},
};
use serde_json::json;

use crate::support::{
    Probe, Trail, TrailUpdate, chain, diamond, failed_node, path_of, thread_of, trail, with_nodes,
};

#[tokio::test]
async fn start_or_continue_applies_its_input_once() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    probe.fail_next("b", 1);

    let error = thread.start_or_continue(trail(["input"])).await.unwrap_err();
    assert_eq!(failed_node(&error), "b");
    assert_eq!(probe.trace(), "1: a | 2: b c");

    let outcome = thread.start_or_continue(trail(["input"])).await.unwrap();
    assert_eq!(probe.trace(), "2: b | 3: d");
    let expected = trail(["input", "a", "b", "c", "d"]);
    assert_eq!(outcome.state(), &expected);

    let outcome = thread.start_or_continue(trail(["input"])).await.unwrap();
    assert_eq!(probe.trace(), "");
    assert_eq!((outcome.is_done(), outcome.state()), (true, &expected));
}

#[tokio::test]
async fn start_or_continue_fails_while_another_run_holds_the_thread() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    probe.block("a");
    let other = thread.clone();
    let run = tokio::spawn(async move { other.start_or_continue(trail(["input"])).await });
    probe.started("a").await;

    let error = thread.start_or_continue(trail(["input"])).await.unwrap_err();
    assert!(matches!(error, RunError::Checkpoint(CheckpointError::Busy { .. })), "{error}");

    probe.unblock("a");
    assert!(run.await.unwrap().unwrap().is_done());
    let outcome = thread.start_or_continue(trail(["input"])).await.unwrap();
    assert_eq!(outcome.state(), &trail(["input", "a", "b", "c", "d"]));
}

#[tokio::test]
async fn start_or_resume_starts_a_new_thread_and_answers_an_interrupted_one() {
    let ask = async |_: &Trail, cx: &Context<Probe>| {
        Ok::<_, NodeError>(Trail::update().path([cx.interrupt::<String>("name?")?]))
    };
    let graph = with_nodes(["a", "b"])
        .node_as("ask", ask)
        .edge(START, "a")
        .edge(START, "ask")
        .edge("ask", "b")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let probe = Probe::default();
    let thread = graph.thread("t", probe.clone());
    let call = async || thread.start_or_resume(trail(["input"]), "Ada").await;

    assert_eq!(call().await.unwrap().interrupts()[0].value, "name?");
    let expected = trail(["input", "a", "Ada", "b"]);
    assert_eq!(call().await.unwrap().state(), &expected);
    // A finished thread ignores the state and the answer.
    assert_eq!(call().await.unwrap().state(), &expected);

    // A thread that has started but has not asked yet does not use the value as an answer.
    let other = graph.thread("other", probe);
    other.update_state(Trail::update(), AsNode::Input).await.unwrap();
    let outcome = other.start_or_resume(trail(["input"]), "Ada").await.unwrap();
    assert_eq!((outcome.interrupts().len(), outcome.state()), (1, &trail(["a"])));

    let start = Input::start_or_continue(trail(["input"]).into_update()).with_resume("Ada");
    let json = graph.input_to_json(&start.unwrap()).unwrap();
    assert_eq!((&json["update"]["path"], &json["resume"]), (&json!(["input"]), &json!("Ada")));
}

#[tokio::test]
async fn a_repeated_command_with_the_same_run_id_is_applied_once() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a", "b"]), &probe);
    let _ = thread.run(trail(["input"])).await.unwrap();
    let command = || {
        let update = Input::command().with_update(Trail::update().path(["command".to_owned()]));
        update.goto(Goto::node("b"))
    };
    let named = thread.clone().with_options(RunOptions::new().run_id("r"));
    probe.fail_next("b", 1);
    let error = named.run(command()).await.unwrap_err();
    assert_eq!(failed_node(&error), "b");
    // The caller does not know whether its first call reached the thread.
    let outcome = named.run(command()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["input", "a", "b", "command", "b"]));
}

#[tokio::test]
async fn a_repeated_start_or_resume_with_the_same_run_id_is_applied_once() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let ask = async |_: &Trail, cx: &Context<Probe>| {
            Ok::<_, NodeError>(Trail::update().path([cx.interrupt::<String>("next?")?]))
        };
        let graph = StateGraph::<Trail, Probe>::new()
            .node_as("ask", ask)
            .edge(START, "ask")
            .edge("ask", "ask")
            .checkpointer(MemorySaver::new())
            .compile()
            .unwrap();
        let mut path = Vec::new();
        for (run, line) in [("1", "Hello!"), ("2", "It rains."), ("3", "Bye!")] {
            let options = RunOptions::new().run_id(run).durability(durability);
            let thread = graph.thread("t", Probe::default()).with_options(options);
            path.push(line.to_owned());
            // The caller did not receive the first result, and repeats the call.
            for _ in 0..2 {
                let outcome = thread.start_or_resume(trail([line]), line).await.unwrap();
                assert_eq!(outcome.interrupts().len(), 1, "{durability:?}");
                assert_eq!(outcome.state().path, path, "{durability:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_state_after_a_failure_includes_finished_and_failed_tasks() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    probe.fail_next("b", 1);
    thread.run(Trail::default()).await.unwrap_err();

    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values, trail(["a", "c"]));
    assert_eq!(state.next, ["b"]);
    let failed = state.tasks.iter().find(|it| it.node == "b").unwrap();
    assert_eq!(failed.error.as_deref(), Some("injected failure of `b`"));
    let done = state.tasks.iter().find(|it| it.node == "c").unwrap();
    assert!(done.result.is_some() && done.error.is_none());
}

#[tokio::test]
async fn fresh_input_drops_pending_tasks() {
    let probe = Probe::default();
    let thread = thread_of(diamond(), &probe);
    probe.fail_next("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    probe.trace();

    let outcome = thread.run(Trail::update().path(["again".to_owned()])).await.unwrap();
    assert_eq!(probe.trace(), "4: a | 5: b c | 6: d");
    assert_eq!(outcome.state(), &trail(["a", "again", "a", "b", "c", "d"]));
}

#[tokio::test]
async fn proceed_on_a_completed_thread_runs_nothing() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a"]), &probe);
    thread.run(Trail::default()).await.unwrap().into_state();
    probe.trace();
    let outcome = thread.proceed().await.unwrap();
    assert!(outcome.is_done());
    assert_eq!(outcome.state(), &trail(["a"]));
    assert_eq!(probe.trace(), "");
}

#[tokio::test]
async fn a_new_thread_needs_input() {
    let thread = thread_of(chain(["a"]), &Probe::default());
    assert!(matches!(thread.proceed().await, Err(RunError::EmptyInput)));
    assert!(matches!(thread.run(Input::command()).await, Err(RunError::EmptyInput)));
    assert!(thread.state().await.unwrap().is_none());
    assert!(thread.history(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn threads_have_separate_states() {
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    for (name, note) in [("one", "1"), ("two", "2")] {
        let thread = graph.thread(name, Probe::default());
        let outcome = thread.run(Trail { note: note.into(), ..Trail::default() }).await.unwrap();
        assert!(outcome.is_done());
    }
    let one = graph.thread("one", Probe::default());
    assert_eq!(one.state().await.unwrap().unwrap().values.note, "1");
    assert_eq!(path_of(&one).await, ["a"]);
}

#[tokio::test]
async fn an_unknown_checkpoint_is_an_error() {
    let thread = thread_of(chain(["a"]), &Probe::default());
    thread.run(Trail::default()).await.unwrap().into_state();
    let unknown = CheckpointId::next();
    let error = thread.at(unknown).proceed().await.unwrap_err();
    let RunError::Checkpoint(CheckpointError::UnknownCheckpoint { thread: name, id, .. }) = error
    else {
        panic!("{error}");
    };
    assert_eq!((name.as_str(), id), ("t", unknown));
    assert!(thread.at(unknown).state().await.unwrap().is_none());
    assert!(thread.run(Trail::update()).await.unwrap().is_done());
}

#[tokio::test]
async fn threads_and_checkpointers_require_each_other() {
    let stored = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let error = stored.invoke(Trail::default(), Probe::default()).await.unwrap_err();
    assert!(matches!(error, RunError::MissingThread));

    let unstored = chain(["a"]).compile().unwrap();
    let thread = unstored.thread("t", Probe::default());
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert!(matches!(error, RunError::NoCheckpointer));
    assert_eq!(
        error.to_string(),
        "a thread needs a checkpointer, but the graph has none; add one before `compile()`, as in \
         `.checkpointer(MemorySaver::new())`, or run the graph without a thread: `graph.run(..)`"
    );
    assert!(matches!(thread.state().await, Err(RunError::NoCheckpointer)));
    assert!(matches!(thread.history(None).await, Err(RunError::NoCheckpointer)));
    assert!(matches!(thread.resume("x").await, Err(RunError::NoCheckpointer)));
}

#[derive(State, Clone, Debug, Default)]
struct Single {
    value: u32,
    #[reduce(append)]
    path: Vec<String>,
}

async fn one(_: &Single) -> SingleUpdate {
    Single::update().value(1).path(["one".to_owned()])
}

async fn two(_: &Single) -> SingleUpdate {
    Single::update().value(2).path(["two".to_owned()])
}

#[tokio::test]
async fn a_thread_is_readable_after_a_conflict() {
    let graph = StateGraph::<Single>::new().node(one).node(two).edge(START, one).edge(START, two);
    let thread = thread_of(graph, &());
    let input = Single { value: 7, ..Single::default() };
    let RunError::Conflict(conflict) = thread.run(input).await.unwrap_err() else {
        panic!("both nodes write `value`");
    };
    assert_eq!(conflict.field, "value");
    assert_eq!((conflict.first.as_str(), conflict.second.as_str()), ("one", "two"));
    assert_eq!(conflict.step, 1);
    let text = conflict.to_string();
    assert!(text.contains("`value`") && text.contains("`one`") && text.contains("`two`"), "{text}");

    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values.value, 7);
    assert_eq!(thread.history(None).await.unwrap()[0].values.value, 7);
}

#[tokio::test]
async fn durability_decides_which_steps_are_stored() {
    for (durability, expect) in [
        (
            Durability::Sync,
            vec![(2, Source::Loop), (1, Source::Loop), (0, Source::Loop), (-1, Source::Input)],
        ),
        (
            Durability::Async,
            vec![(2, Source::Loop), (1, Source::Loop), (0, Source::Loop), (-1, Source::Input)],
        ),
        (Durability::Exit, vec![(2, Source::Loop)]),
    ] {
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(chain(["a", "b"]), &Probe::default()).with_options(options);
        assert!(thread.run(Trail::default()).await.unwrap().is_done());
        let history = thread.history(None).await.unwrap();
        let found: Vec<_> = history.iter().map(|it| (it.step, it.source)).collect();
        assert_eq!(found, expect, "{durability:?}");
        for pair in history.windows(2) {
            assert_eq!(pair[0].parent, Some(pair[1].id), "{durability:?}");
        }
        assert_eq!(history.last().unwrap().parent, None);
        assert_eq!(path_of(&thread).await, ["a", "b"]);
    }
}

#[tokio::test]
async fn every_durability_keeps_finished_tasks_of_a_failed_step() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(diamond(), &probe).with_options(options);
        probe.fail_next("c", 1);
        thread.run(Trail::default()).await.unwrap_err();
        assert_eq!(path_of(&thread).await, ["a", "b"], "{durability:?}");
        probe.trace();
        let outcome = thread.proceed().await.unwrap();
        assert_eq!(probe.trace(), "2: c | 3: d", "{durability:?}");
        assert_eq!(outcome.state(), &trail(["a", "b", "c", "d"]), "{durability:?}");
    }
}

#[tokio::test]
async fn sync_durability_stores_a_step_before_the_next_starts() {
    for (durability, stored) in [(Durability::Sync, 2), (Durability::Exit, 0)] {
        let probe = Probe::default();
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(chain(["a", "b"]), &probe).with_options(options);
        probe.block("a");
        let watcher = thread.clone();
        let run = tokio::spawn(async move { thread.run(Trail::default()).await });
        probe.started("a").await;
        assert_eq!(watcher.history(None).await.unwrap().len(), stored, "{durability:?}");
        probe.unblock("a");
        assert!(run.await.unwrap().unwrap().is_done());
    }
}

#[tokio::test]
async fn an_incomplete_join_is_kept_between_runs() {
    let probe = Probe::default();
    let graph = with_nodes(["a", "b", "c"])
        .branch(START, |it: &Trail| match it.note.as_str() {
            "a" => graph_core::Goto::node("a"),
            _ => graph_core::Goto::node("b"),
        })
        .join(["a", "b"], "c");
    let thread = thread_of(graph, &probe);
    let input = |note: &str| Trail::update().note(note);
    assert!(thread.run(input("a")).await.unwrap().is_done());
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.pending_joins, [("c".to_owned(), vec!["b".to_owned()])]);
    assert!(thread.run(input("b")).await.unwrap().is_done());
    assert_eq!(probe.trace(), "1: a | 4: b | 5: c");
}

#[tokio::test]
async fn start_or_continue_starts_a_graph_that_a_node_calls() {
    async fn call(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        let input = Input::start_or_continue(trail(["nested"]).into_update());
        let inner = cx.run_graph(&diamond().compile()?, Persistence::Invocation, input).await?;
        Ok(Trail::update().path(inner.map(|it| it.path).unwrap_or_default()))
    }
    let probe = Probe::default();
    let graph = StateGraph::<Trail, Probe>::new().node(call).edge(START, call);
    let outcome = thread_of(graph, &probe).start_or_continue(Trail::default()).await.unwrap();
    assert_eq!(outcome.state(), &trail(["nested", "a", "b", "c", "d"]));
}
