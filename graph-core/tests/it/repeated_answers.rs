//! Repeated runs with the same run id use an answer without an interrupt id only once.

use graph_core::{
    Context, Durability, Input, MemorySaver, NodeError, RunError, RunOptions, START, StateGraph,
    Stops, Thread,
    checkpoint::{Checkpointer, Lookup, Source, TaskEvent, TaskId, TaskRecord},
};
use serde_json::json;

use crate::support::{
    Probe, Trail, TrailUpdate, ask, failed_node, graph, pass, sub, thread_of, trail, visited,
    with_nodes,
};

/// Asks two questions in one task, so that no checkpoint is stored between them. Can fail before the first question and
/// between the two.
async fn ask_twice(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), "before").await?;
    let first: String = cx.interrupt("first?")?;
    cx.deps().enter(cx.step(), "between").await?;
    let second: String = cx.interrupt("second?")?;
    Ok(Trail::update().path([first, second]))
}

fn survey() -> StateGraph<Trail, Probe> {
    graph().node(ask_twice).edge(START, ask_twice).checkpointer(MemorySaver::new())
}

/// Returns a handle to the thread. Runs that it starts have the id `run`.
fn named(thread: &Thread<Trail, Probe>, run: &str) -> Thread<Trail, Probe> {
    thread.clone().with_options(RunOptions::new().run_id(run))
}

#[tokio::test]
async fn a_repeated_answer_with_the_same_run_id_is_used_once() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let graph = survey().compile().unwrap();
        let thread = |run: &str| {
            let options = RunOptions::new().run_id(run).durability(durability);
            graph.thread("t", Probe::default()).with_options(options)
        };
        let _ = thread("start").run(Trail::default()).await.unwrap();
        // The caller did not receive the result, and repeats the call.
        for _ in 0..2 {
            let outcome = thread("a").resume("yes").await.unwrap();
            assert_eq!(outcome.interrupts()[0].value, "second?", "{durability:?}");
            let outcome = thread("a").start_or_resume(Trail::default(), "yes").await.unwrap();
            assert_eq!(outcome.interrupts()[0].value, "second?", "{durability:?}");
        }
        let outcome = thread("b").resume("no").await.unwrap();
        assert_eq!(outcome.state(), &trail(["yes", "no"]), "{durability:?}");
    }
}

#[tokio::test]
async fn a_repeated_answer_at_the_newest_checkpoint_does_not_travel_in_time() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let thread = survey().compile().unwrap().thread("t", Probe::default());
        let options = |run: &str| RunOptions::new().run_id(run).durability(durability);
        let _ = thread.clone().with_options(options("start")).run(Trail::default()).await.unwrap();
        let head = thread.state().await.unwrap().unwrap().id;
        let addressed = thread.at(head).with_options(options("a"));
        for _ in 0..2 {
            let outcome = addressed.resume("yes").await.unwrap();
            assert_eq!(outcome.interrupts()[0].value, "second?", "{durability:?}");
            let outcome = addressed.start_or_resume(Trail::default(), "yes").await.unwrap();
            assert_eq!(outcome.interrupts()[0].value, "second?", "{durability:?}");
        }
        assert_eq!(thread.state().await.unwrap().unwrap().id, head, "{durability:?}");
        let outcome = thread.clone().with_options(options("b")).resume("no").await.unwrap();
        assert_eq!(outcome.state(), &trail(["yes", "no"]), "{durability:?}");
        // The thread has a newer checkpoint, from which the repetition continues.
        let outcome = addressed.resume("yes").await.unwrap();
        assert!(outcome.is_done(), "{durability:?}");
        assert_eq!(outcome.state(), &trail(["yes", "no"]), "{durability:?}");
        let history = thread.history(None).await.unwrap();
        assert!(history.iter().all(|it| it.source != Source::Fork), "{durability:?}");
    }
}

#[tokio::test]
async fn a_repeated_answer_to_a_subgraph_is_used_once() {
    // After the answer, the subgraph stores its own checkpoint, and two of its nodes ask.
    let inner = graph()
        .node_as("a", ask)
        .node_as("b", ask)
        .node_as("c", ask)
        .edge(START, "a")
        .edge("a", "b")
        .edge("a", "c");
    let graph = graph().node(sub("sub", inner)).edge(START, "sub").checkpointer(MemorySaver::new());
    let graph = graph.compile().unwrap();
    for is_addressed in [false, true] {
        let thread = graph.thread(format!("addressed: {is_addressed}"), Probe::default());
        let asked = thread.run(Trail::default()).await.unwrap();
        assert_eq!(asked.interrupts()[0].value, "a?");
        let state = thread.state().await.unwrap().unwrap();
        let answering = if is_addressed { thread.at(state.id) } else { thread.clone() };
        for _ in 0..3 {
            let outcome = named(&answering, "a").resume("yes").await.unwrap();
            let mut questions: Vec<_> =
                outcome.interrupts().iter().map(|it| it.value.to_string()).collect();
            questions.sort_unstable();
            assert_eq!(questions, [r#""b?""#, r#""c?""#], "{is_addressed}");
        }
        let pending = thread.state().await.unwrap().unwrap();
        let answers = pending.interrupts().into_iter().map(|it| (it.id.clone(), json!("no")));
        let done = thread.resume_by_id(answers.collect::<Vec<_>>()).await.unwrap();
        assert_eq!(done.state(), &trail(["yes", "no", "no"]), "{is_addressed}");
    }
}

#[tokio::test]
async fn a_repeated_answer_at_a_checkpoint_of_a_subgraph_is_used_once() {
    let inner = graph().node_as("a", ask).node_as("b", ask).sequence(["a", "b"]);
    let graph = graph().node(sub("sub", inner)).edge(START, "sub").checkpointer(MemorySaver::new());
    let graph = graph.compile().unwrap();
    let thread = graph.thread("t", Probe::default());
    let _ = thread.run(Trail::default()).await.unwrap();
    let state = thread.state().await.unwrap().unwrap();
    let namespace = state.tasks[0].subgraph_namespace.clone().unwrap();
    let head = thread.subgraph(&namespace).unwrap().state().await.unwrap().unwrap().id;
    for _ in 0..3 {
        let answering = named(&thread, "a").subgraph(&namespace).unwrap().at(head);
        let outcome = answering.run(Input::resume("yes").unwrap()).await.unwrap();
        assert_eq!(outcome.interrupts()[0].value, "b?");
    }
    assert_eq!(thread.resume("no").await.unwrap().state(), &trail(["yes", "no"]));
}

/// Runs the graph until it stops before the node, so that no interrupt is pending.
async fn stopped_before(node: &'static str, thread: &Thread<Trail, Probe>) {
    let options = RunOptions::new().stop_before(Stops::at([node]));
    let stopped = thread.clone().with_options(options).run(Trail::default()).await;
    let stopped = stopped.expect("the run stops");
    assert!(!stopped.is_done() && stopped.interrupts().is_empty());
}

#[tokio::test]
async fn a_repeated_answer_without_a_pending_interrupt_is_used_once() {
    // The task fails before it takes the answer, or afterwards.
    for place in ["before", "between"] {
        let probe = Probe::default();
        let thread = survey().compile().unwrap().thread("t", probe.clone());
        stopped_before("ask_twice", &thread).await;
        probe.fail_next(place, 1);
        let error = named(&thread, "a").resume("yes").await.unwrap_err();
        assert_eq!(failed_node(&error), "ask_twice");
        for _ in 0..2 {
            let outcome = named(&thread, "a").resume("yes").await.unwrap();
            assert_eq!(outcome.interrupts()[0].value, "second?", "{place}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_a_finished_task_has_taken_is_not_used_by_another_task() {
    async fn ask_after_a(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().started("a").await;
        cx.deps().enter(cx.step(), "b").await?;
        Ok(visited(&cx.interrupt::<String>("b?")?))
    }
    let probe = Probe::default();
    let graph = with_nodes(["first"])
        .node_as("a", ask)
        .node_as("b", ask_after_a)
        .edge(START, "first")
        .edge("first", "a")
        .edge("first", "b");
    let thread = thread_of(graph, &probe);
    stopped_before("a", &thread).await;
    probe.fail_next("b", 1);
    let error = named(&thread, "r").resume("yes").await.unwrap_err();
    assert_eq!(failed_node(&error), "b");
    for _ in 0..2 {
        let outcome = named(&thread, "r").resume("yes").await.unwrap();
        assert_eq!(outcome.interrupts()[0].value, "b?");
    }
    assert_eq!(thread.resume("no").await.unwrap().state(), &trail(["first", "yes", "no"]));
}

#[tokio::test]
async fn a_repeated_command_with_an_update_and_an_answer_applies_each_once() {
    let thread = survey().compile().unwrap().thread("t", Probe::default());
    let _ = thread.run(Trail::default()).await.unwrap();
    for _ in 0..3 {
        let command = Input::command().with_update(visited("command")).with_resume("yes").unwrap();
        let outcome = named(&thread, "a").run(command).await.unwrap();
        assert_eq!(outcome.interrupts()[0].value, "second?");
    }
    let done = thread.resume("no").await.unwrap();
    assert_eq!(done.state(), &trail(["command", "yes", "no"]));
}

#[tokio::test]
async fn a_repeated_answer_to_one_of_several_tasks_is_used_once() {
    let graph = graph()
        .node_as("a", ask)
        .node(ask_twice)
        .node_as("end", pass)
        .edge(START, "a")
        .edge(START, ask_twice)
        .join(["a", "ask_twice"], "end");
    let thread = thread_of(graph, &Probe::default());
    let asked = thread.run(Trail::default()).await.unwrap();
    for _ in 0..2 {
        let error = named(&thread, "r").resume("yes").await.unwrap_err();
        assert!(matches!(error, RunError::AmbiguousResume { pending: 2 }), "{error}");
    }
    let first = asked.interrupts().iter().find(|it| it.value == "a?").unwrap();
    let _ = thread.resume_by_id([(first.id.clone(), json!("A"))]).await.unwrap();
    for _ in 0..2 {
        let outcome = named(&thread, "r").resume("yes").await.unwrap();
        assert_eq!(outcome.interrupts().len(), 1);
        assert_eq!(outcome.interrupts()[0].value, "second?");
    }
    let done = thread.resume("no").await.unwrap();
    assert_eq!(done.state(), &trail(["A", "yes", "no", "end"]));
}

#[tokio::test]
async fn a_recorded_command_without_pending_interrupts_does_not_prevent_the_answer() {
    let event: TaskEvent =
        serde_json::from_value(json!({ "command": { "run": "r", "writes": [], "gotos": [] } }))
            .unwrap();
    assert!(matches!(&event, TaskEvent::Command { pending: None, .. }));
    let saver = MemorySaver::new();
    let graph = survey().checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", Probe::default());
    let _ = thread.run(Trail::default()).await.unwrap();
    let head = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
    let record = TaskRecord { task: TaskId::COMMAND, node: String::new(), event };
    saver.record(&head.key, vec![record]).await.unwrap();
    let outcome = named(&thread, "r").resume("yes").await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, "second?");
}
