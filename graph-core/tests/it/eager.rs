//! Eager graphs: tasks run ahead of slower branches, and nothing that a run stores or reports changes.

use std::time::Duration;

use graph_core::{
    Command, Context, Durability, EventKind, Goto, Input, JsonFieldKind, JsonState,
    JsonStateSchema, MemorySaver, NodeError, NodeExt, Persistence, RunControl, RunError,
    RunOptions, RunOutcome, START, State, StateGraph, Stops, StreamMode, Thread, UndeclaredError,
    json_node,
};
use serde_json::json;

use crate::support::{
    Item, Probe, Trail, TrailUpdate, failed_node, trail, visited, work, yield_to_tasks,
};

/// A state with one field for each branch.
#[derive(State, Clone, Debug, Default, PartialEq)]
struct Branches {
    left: String,
    right: String,
    #[reduce(append)]
    log: Vec<String>,
    both: String,
}

type Graph = StateGraph<Branches, Probe>;

/// Appends the node's name to a field.
async fn step_in(
    old: &str,
    cx: &Context<Probe>,
    write: fn(BranchesUpdate, String) -> BranchesUpdate,
) -> Result<BranchesUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    Ok(write(Branches::update(), format!("{old}{} ", cx.node())))
}

async fn left(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
    step_in(&state.left, cx, BranchesUpdate::left).await
}

async fn right(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
    step_in(&state.right, cx, BranchesUpdate::right).await
}

async fn ask_left(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    let answer: String = cx.interrupt("which?")?;
    Ok(Branches::update().left(format!("{}{answer} ", state.left)))
}

async fn join(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
    cx.deps().enter(cx.step(), cx.node()).await?;
    Ok(Branches::update().both(format!("{}| {}", state.left, state.right)))
}

/// The branches `a1` and `b1`, `b2`, `b3`, which meet at `join`.
fn two_branches() -> Graph {
    let right = || right.reads(["right"]).writes(["right"]);
    StateGraph::new()
        .node_as("a1", left.reads(["left"]).writes(["left"]))
        .node_as("b1", right())
        .node_as("b2", right())
        .node_as("b3", right())
        .node_as("join", join.reads(["left", "right"]).writes(["both"]))
        .edge(START, "a1")
        .edge(START, "b1")
        .edge("b1", "b2")
        .edge("b2", "b3")
        .join(["a1", "b3"], "join")
}

/// The same with an interrupt in `a1`.
fn interrupted_branches() -> Graph {
    let right = || right.reads(["right"]).writes(["right"]);
    StateGraph::new()
        .node_as("a1", ask_left.reads(["left"]).writes(["left"]))
        .node_as("b1", right())
        .node_as("b2", right())
        .node_as("b3", right())
        .node_as("join", join.reads(["left", "right"]).writes(["both"]))
        .edge(START, "a1")
        .edge(START, "b1")
        .edge("b1", "b2")
        .edge("b2", "b3")
        .join(["a1", "b3"], "join")
}

fn thread(graph: Graph, probe: &Probe) -> Thread<Branches, Probe> {
    let graph = graph.checkpointer(MemorySaver::new()).eager().compile();
    graph.expect("the graph is valid").thread("t", probe.clone())
}

/// Returns one line per checkpoint, oldest first: the step, the state and the next nodes.
async fn history(thread: &Thread<Branches, Probe>) -> Vec<String> {
    let history = thread.history(None).await.expect("the history is readable");
    let line = |it: &graph_core::ThreadState<Branches>| {
        let tasks: Vec<_> = it.tasks.iter().map(|it| (&it.node, &it.result)).collect();
        format!("{} {:?} {:?} {tasks:?}", it.step, it.values, it.next)
    };
    history.iter().rev().map(line).collect()
}

#[tokio::test]
async fn fast_branch_does_not_wait_for_a_slow_task() {
    let probe = Probe::default();
    probe.block("a1");
    let eager = thread(two_branches(), &probe);
    let run = tokio::spawn({
        let eager = eager.clone();
        async move { eager.invoke(Branches::default()).await }
    });
    probe.started("b3").await;
    yield_to_tasks().await;
    let state = eager.state().await.unwrap().expect("the input is stored");
    assert_eq!(state.step, 0, "no step after START is committed while `a1` runs");
    assert_eq!(state.next, ["a1"], "`b1` is done, and tasks of later steps are not shown");
    probe.unblock("a1");
    let result = run.await.unwrap().unwrap();
    assert_eq!(result.both, "a1 | b1 b2 b3 ");
    assert_eq!(probe.trace(), "1: a1 b1 | 2: b2 | 3: b3 | 4: join");

    let graph = two_branches().checkpointer(MemorySaver::new()).compile().unwrap();
    let ordinary = graph.thread("t", probe);
    assert_eq!(ordinary.invoke(Branches::default()).await.unwrap(), result);
    assert_eq!(history(&eager).await, history(&ordinary).await);
}

#[tokio::test]
async fn node_waits_for_a_running_task_that_writes_a_field_it_reads() {
    let probe = Probe::default();
    probe.block("a1");
    let graph =
        two_branches().node_as("spy", join.reads(["left"]).writes(["both"])).edge("b1", "spy");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("spy"), 0);
    probe.unblock("a1");
    run.await.unwrap().unwrap();
    assert_eq!(probe.count("spy"), 1);
}

#[tokio::test]
async fn node_waits_for_a_task_that_leads_to_a_writer() {
    let probe = Probe::default();
    probe.block("a1");
    // `late` is in step 3, after `a2`, which writes the field that `late` reads.
    let graph = two_branches()
        .node_as("a2", left.reads(["left"]).writes(["left"]))
        .edge("a1", "a2")
        .node_as("soon", join.reads(["log"]).writes(["both"]))
        .node_as("late", join.reads(["left"]).writes(["log"]))
        .edge("b1", "soon")
        .edge("b2", "late");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("soon").await;
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("late"), 0);
    probe.unblock("a1");
    assert!(matches!(run.await.unwrap(), Err(RunError::Node { node, .. }) if node == "late"));
}

#[tokio::test]
async fn node_without_declared_reads_waits_for_its_step() {
    let probe = Probe::default();
    probe.block("a1");
    let graph = two_branches().node_as("plain", right.writes(["log"])).edge("b1", "plain");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("plain"), 0);
    run.abort();
}

#[tokio::test]
async fn undeclared_field_is_hidden_and_undeclared_write_fails() {
    let probe = Probe::default();
    let input = Branches { left: "secret".into(), ..Branches::default() };
    for eager in [false, true] {
        let graph = StateGraph::new().node_as("blind", join.reads(["right"])).edge(START, "blind");
        let graph = if eager { graph.eager() } else { graph };
        let state = graph.compile().unwrap().invoke(input.clone(), probe.clone()).await.unwrap();
        assert_eq!(state.both, "| ", "`left` is not visible");
    }
    for saver in [false, true] {
        let graph = StateGraph::<Branches, Probe>::new()
            .node_as("liar", left.writes(["right"]))
            .edge(START, "liar")
            .eager();
        let result = match saver {
            true => {
                let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
                graph.thread("t", probe.clone()).invoke(input.clone()).await
            }
            false => graph.compile().unwrap().invoke(input.clone(), probe.clone()).await,
        };
        let error = result.unwrap_err();
        let RunError::Node { node, error, .. } = &error else { panic!("{error}") };
        assert_eq!(node, "liar");
        let expected = UndeclaredError::Write { field: "left".into() };
        assert_eq!(error.downcast_ref::<UndeclaredError>(), Some(&expected));
    }
}

#[tokio::test]
async fn compile_rejects_an_unknown_field() {
    let graph = StateGraph::<Branches, Probe>::new().node_as("a", left.reads(["lift"]));
    let error = graph.edge(START, "a").compile().unwrap_err();
    assert!(error.to_string().contains("`a` declares the field `lift`"), "{error}");
}

#[tokio::test]
async fn interrupt_lets_other_branches_run_to_their_join() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let thread = thread(interrupted_branches(), &probe);
        let thread = thread.with_options(RunOptions::new().durability(durability));
        let outcome = thread.run(Branches::default()).await.unwrap();
        let RunOutcome::Interrupted { state, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(state.right, "b1 ", "the state contains only the current step");
        assert_eq!(probe.trace(), "1: a1 b1 | 2: b2 | 3: b3");
        let stored = thread.state().await.unwrap().unwrap();
        assert_eq!((stored.next, stored.values.right), (vec!["a1".to_owned()], "b1 ".to_owned()));
        let state = thread.resume("yes").await.unwrap().into_state();
        assert_eq!(state.both, "yes | b1 b2 b3 ");
        assert_eq!(probe.trace(), "1: a1 | 4: join", "{durability:?}");
    }
}

#[tokio::test]
async fn crash_does_not_repeat_recorded_results() {
    for durability in [Durability::Sync, Durability::Async] {
        let probe = Probe::default();
        probe.block("a1");
        let thread = thread(two_branches(), &probe);
        let thread = thread.with_options(RunOptions::new().durability(durability));
        let run = tokio::spawn({
            let thread = thread.clone();
            async move { thread.invoke(Branches::default()).await }
        });
        probe.started("b3").await;
        yield_to_tasks().await;
        run.abort();
        let _ = run.await;
        assert_eq!(probe.trace(), "1: a1 b1 | 2: b2 | 3: b3");
        probe.unblock("a1");
        let state = thread.proceed().await.unwrap().into_state();
        assert_eq!(state.both, "a1 | b1 b2 b3 ");
        assert_eq!(probe.trace(), "1: a1 | 4: join", "{durability:?}");
    }
}

#[tokio::test]
async fn command_that_updates_the_state_drops_results_that_ran_ahead() {
    let probe = Probe::default();
    let thread = thread(interrupted_branches(), &probe);
    let _ = thread.run(Branches::default()).await.unwrap();
    probe.trace();
    let input = Input::command().with_update(Branches::update().log(["edited".to_owned()]));
    let input = input.with_resume("yes").unwrap();
    let state = thread.run(input).await.unwrap().into_state();
    assert_eq!(state.right, "b1 b2 b3 ");
    assert_eq!(
        probe.trace(),
        "1: a1 | 2: b2 | 3: b3 | 4: join",
        "`b1` is part of the current step"
    );
}

#[tokio::test]
async fn failure_keeps_results_that_ran_ahead() {
    let probe = Probe::default();
    probe.block("a1");
    probe.fail_next("a1", 1);
    let thread = thread(two_branches(), &probe);
    let run = tokio::spawn({
        let thread = thread.clone();
        async move { thread.invoke(Branches::default()).await }
    });
    probe.started("b3").await;
    yield_to_tasks().await;
    probe.unblock("a1");
    assert!(matches!(run.await.unwrap(), Err(RunError::Node { node, .. }) if node == "a1"));
    probe.trace();
    let state = thread.proceed().await.unwrap().into_state();
    assert_eq!(state.both, "a1 | b1 b2 b3 ");
    assert_eq!(probe.trace(), "1: a1 | 4: join");
}

#[tokio::test]
async fn failure_ahead_of_its_step_is_reported_in_its_step() {
    let probe = Probe::default();
    probe.block("a1");
    probe.fail_next("b2", 1);
    let thread = thread(two_branches(), &probe);
    let run = tokio::spawn({
        let thread = thread.clone();
        async move { thread.invoke(Branches::default()).await }
    });
    probe.started("b2").await;
    yield_to_tasks().await;
    assert!(!run.is_finished());
    probe.unblock("a1");
    assert!(
        matches!(run.await.unwrap(), Err(RunError::Node { node, step: 2, .. }) if node == "b2")
    );
    assert_eq!(thread.state().await.unwrap().unwrap().step, 1);
}

#[tokio::test]
async fn step_limit_and_static_stops_hold_tasks_back() {
    for options in [RunOptions::new().step_limit(2), RunOptions::new().stop_before(Stops::All)] {
        let probe = Probe::default();
        probe.block("a1");
        let thread = thread(two_branches(), &probe).with_options(options);
        let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
        yield_to_tasks().await;
        yield_to_tasks().await;
        assert_eq!(probe.count("b3"), 0);
        run.abort();
    }
}

#[tokio::test]
async fn draining_waits_for_tasks_that_run_ahead() {
    let probe = Probe::default();
    probe.block("a1");
    probe.block("b2");
    let control = RunControl::new();
    let options = RunOptions::new().control(control.clone());
    let thread = thread(two_branches(), &probe).with_options(options);
    let run = tokio::spawn({
        let thread = thread.clone();
        async move { thread.run(Branches::default()).await }
    });
    probe.started("b2").await;
    control.drain();
    probe.unblock("a1");
    yield_to_tasks().await;
    assert!(!run.is_finished(), "`b2` is still running");
    probe.unblock("b2");
    assert!(matches!(run.await.unwrap(), Ok(RunOutcome::Stopped { .. })));
    probe.trace();
    let thread = thread.with_options(RunOptions::new());
    let _ = thread.proceed().await.unwrap();
    assert_eq!(probe.trace(), "3: b3 | 4: join");
}

#[tokio::test]
async fn payload_of_a_finished_task_is_processed_at_once() {
    async fn send(_: &Trail, cx: &Context<Probe>) -> Result<Command<Trail, Vec<Goto>>, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        let number = u32::from(cx.node() == "z");
        let payload = serde_json::json!(number);
        Ok(Command::new(TrailUpdate::default(), vec![Goto::send("work", payload)]))
    }
    let probe = Probe::default();
    probe.block("z");
    let graph = StateGraph::<Trail, Probe>::new()
        .node_as("a", send.reads(["note"]).writes(["path"]))
        .node_as("z", send.reads(["note"]).writes(["path"]))
        .node_as("work", work.writes(["path"]))
        .edge(START, "a")
        .edge(START, "z")
        .eager()
        .compile()
        .unwrap();
    let run = tokio::spawn({
        let probe = probe.clone();
        async move { graph.invoke(Trail::default(), probe).await }
    });
    probe.started("work(0)").await;
    probe.unblock("z");
    assert_eq!(run.await.unwrap().unwrap(), trail(["work(0)", "work(1)"]));
}

#[tokio::test]
async fn subgraph_in_a_node_waits_for_the_step_of_the_node() {
    async fn inner(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), "inner").await?;
        Ok(visited("inner"))
    }
    async fn outer(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), "outer").await?;
        let graph = StateGraph::<Trail, Probe>::new().node(inner).edge(START, inner).compile()?;
        let state = cx.run_graph(&graph, Persistence::Invocation, Trail::default()).await?;
        Ok(Trail::update().path(state.unwrap_or_default().path))
    }
    async fn ask(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        let answer: String = cx.interrupt("?")?;
        Ok(visited(&answer))
    }
    async fn first(_: &Trail) -> TrailUpdate {
        visited("first")
    }
    let probe = Probe::default();
    let graph = StateGraph::<Trail, Probe>::new()
        .node(ask.reads(["note"]).writes(["path"]))
        .node(first.reads(["note"]).writes(["path"]))
        .node(outer.reads(["note"]).writes(["path"]))
        .edge(START, ask)
        .edge(START, first)
        .edge(first, outer)
        .checkpointer(MemorySaver::new())
        .eager()
        .compile()
        .unwrap();
    let thread = graph.thread("t", probe.clone());
    // The run returns although `outer` waits, and `outer` runs again.
    assert!(matches!(thread.run(Trail::default()).await, Ok(RunOutcome::Interrupted { .. })));
    assert_eq!((probe.count("outer"), probe.count("inner")), (1, 0));
    let state = thread.resume("yes").await.unwrap().into_state();
    assert_eq!(state, trail(["yes", "first", "inner"]));
    assert_eq!((probe.count("outer"), probe.count("inner")), (2, 1));
}

#[tokio::test]
async fn events_of_a_task_appear_after_its_step_has_started() {
    async fn talk(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.emit(cx.node().to_owned()).await;
        cx.deps().enter(cx.step(), cx.node()).await?;
        Ok(visited(cx.node()))
    }
    let probe = Probe::default();
    probe.block("a");
    let node = || talk.reads(["note"]).writes(["path"]);
    let graph = StateGraph::<Trail, Probe>::new()
        .node_as("a", node())
        .node_as("b", node())
        .node_as("c", node())
        .edge(START, "a")
        .edge(START, "b")
        .edge("b", "c")
        .eager()
        .compile()
        .unwrap();
    let options = RunOptions::new().stream_modes([StreamMode::Custom, StreamMode::Tasks]);
    let mut run = graph.with(options).stream(Trail::default(), probe.clone());
    let mut seen = Vec::new();
    let release = async {
        probe.started("c").await;
        probe.unblock("a");
    };
    let read = async {
        while let Some(event) = run.next().await {
            let node = event.node.as_deref().unwrap_or_default().to_owned();
            match event.kind {
                EventKind::TaskStarted { .. } => seen.push(format!("start {node}")),
                EventKind::Custom(_) => seen.push(format!("emit {node}")),
                EventKind::TaskFinished { .. } => seen.push(format!("end {node}")),
                _ => {}
            }
        }
    };
    let both = async { tokio::join!(release, read) };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("the run ends");
    let expected = ["start c", "emit c", "end c"];
    assert_eq!(seen[seen.len() - 3..], expected, "{seen:?}");
}

#[tokio::test]
async fn node_waits_for_a_payload_whose_number_is_not_known() {
    async fn send(_: &Branches) -> Command<Branches, Vec<Goto>> {
        Command::new(Branches::update(), vec![Goto::send("work", json!(7))])
    }
    async fn work(item: Item) -> BranchesUpdate {
        Branches::update().log([item.0.to_string()])
    }
    async fn count(state: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        Ok(Branches::update().both(state.log.len().to_string()))
    }
    let probe = Probe::default();
    probe.block("a");
    let graph = StateGraph::new()
        .node_as("a", left.reads(["left"]).writes(["left"]))
        .node_as("z", send.reads(["right"]).writes(["both"]))
        .node_as("b", right.reads(["right"]).writes(["right"]))
        .node_as("work", work.writes(["log"]))
        .node_as("count", count.reads(["log"]).writes(["both"]))
        .edge(START, "a")
        .edge(START, "z")
        .edge("z", "b")
        .edge("b", "count");
    let thread = thread(graph, &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("count"), 0, "`work` writes the field that `count` reads");
    probe.unblock("a");
    assert_eq!(run.await.unwrap().unwrap().both, "1");
}

#[tokio::test]
async fn node_whose_branch_sees_every_field_waits_for_its_step() {
    let schema = JsonStateSchema::new([
        ("left", JsonFieldKind::Last),
        ("right", JsonFieldKind::Last),
        ("out", JsonFieldKind::Last),
    ])
    .unwrap();
    let probe = Probe::default();
    probe.block("slow");
    let node = |name: &'static str, field: &'static str| {
        let node = json_node(name, move |_, cx: Context<Probe>| async move {
            cx.deps().enter(cx.step(), cx.node()).await?;
            Ok(json!({ field: name }))
        });
        node.reads([field]).writes([field])
    };
    let graph = schema
        .graph_with::<Probe>()
        .node(node("slow", "left"))
        .node(node("b1", "right"))
        .node(node("b2", "right"))
        .node(node("set", "out"))
        .node(node("unset", "out"))
        .edge(START, "slow")
        .edge(START, "b1")
        .edge("b1", "b2")
        .branch("b2", |state: &JsonState| match state.get("left") {
            Some(_) => vec![Goto::node("set")],
            None => vec![Goto::node("unset")],
        })
        .eager()
        .compile()
        .unwrap();
    let run = tokio::spawn({
        let (input, probe) = (schema.input(json!({ "right": "" })).unwrap(), probe.clone());
        async move { graph.invoke(input, probe).await }
    });
    probe.started("b1").await;
    yield_to_tasks().await;
    probe.unblock("slow");
    assert_eq!(run.await.unwrap().unwrap().get("out"), Some(&json!("set")));
}

/// A state with a field that is not stored.
#[derive(State, Clone, Debug, Default, PartialEq)]
struct Visit {
    answer: String,
    #[reduce(untracked)]
    token: String,
    #[reduce(append)]
    seen: Vec<String>,
}

#[tokio::test]
async fn nodes_that_use_untracked_fields_wait_for_their_step() {
    async fn ask(_: &Visit, cx: &Context<Probe>) -> Result<VisitUpdate, NodeError> {
        Ok(Visit::update().answer(cx.interrupt::<String>("?")?))
    }
    async fn set(_: &Visit, cx: &Context<Probe>) -> Result<VisitUpdate, NodeError> {
        Ok(Visit::update().token(cx.node().to_owned()))
    }
    async fn look(state: &Visit) -> VisitUpdate {
        Visit::update().seen([state.token.clone()])
    }
    for eager in [false, true] {
        let graph = StateGraph::<Visit, Probe>::new()
            .node(ask.reads(["answer"]).writes(["answer"]))
            .node_as("first", set.reads(["seen"]).writes(["token"]))
            .node_as("look", look.reads(["token"]).writes(["seen"]))
            .node_as("second", set.reads(["seen"]).writes(["token"]))
            .node_as("last", look.reads(["token", "answer"]).writes(["seen"]))
            .edge(START, ask)
            .edge(START, "first")
            .sequence(["first", "look", "second", "last"])
            .checkpointer(MemorySaver::new());
        let graph = if eager { graph.eager() } else { graph };
        let thread = graph.compile().unwrap().thread("t", Probe::default());
        assert!(matches!(thread.run(Visit::default()).await, Ok(RunOutcome::Interrupted { .. })));
        let state = thread.resume("yes").await.unwrap().into_state();
        assert_eq!(state.seen, ["", "second"], "eager: {eager}");
    }
}

#[tokio::test]
async fn command_that_starts_a_thread_can_lead_to_any_node() {
    let probe = Probe::default();
    let graph = two_branches().node_as("other", join.reads(["log"]).writes(["both"]));
    let input = Input::command().with_update(Branches::update().left("")).goto(Goto::node("other"));
    assert!(thread(graph, &probe).run(input).await.unwrap().is_done());
    assert_eq!(probe.count("other"), 1);
}

#[tokio::test(start_paused = true)]
async fn step_timeout_does_not_apply_to_tasks_of_later_steps() {
    async fn sleep(_: &Branches, cx: &Context<Probe>) -> Result<BranchesUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(Branches::update().log([cx.node().to_owned()]))
    }
    let probe = Probe::default();
    let graph = interrupted_branches()
        .node_as("long", sleep.reads(["log"]).writes(["log"]))
        .edge("b1", "long")
        .step_timeout(Duration::from_secs(1));
    let thread = thread(graph, &probe);
    assert!(matches!(thread.run(Branches::default()).await, Ok(RunOutcome::Interrupted { .. })));
    assert_eq!(thread.resume("yes").await.unwrap().into_state().log, ["long"]);
    assert_eq!(probe.count("long"), 1);
}

#[tokio::test]
async fn node_with_an_error_handler_waits_for_its_step() {
    let probe = Probe::default();
    probe.block("a1");
    let guarded = join.reads(["log"]).writes(["both"]).on_error(join);
    let thread = thread(two_branches().node_as("guarded", guarded).edge("b1", "guarded"), &probe);
    let run = tokio::spawn(async move { thread.invoke(Branches::default()).await });
    probe.started("b3").await;
    yield_to_tasks().await;
    assert_eq!(probe.count("guarded"), 0);
    run.abort();
}

#[tokio::test]
async fn failure_that_ran_ahead_does_not_replace_the_first_failure_of_its_step() {
    async fn note(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        Ok(visited(cx.node()))
    }
    let probe = Probe::default();
    probe.block("slow");
    probe.fail_next("late", 1);
    probe.fail_next("z", 1);
    let declared = || note.reads(["note"]).writes(["path"]);
    let mut graph = StateGraph::<Trail, Probe>::new()
        .node_as("slow", declared())
        .node_as("fast", declared())
        .edge(START, "slow")
        .edge(START, "fast");
    for name in ["one", "two", "late"] {
        graph = graph.node_as(name, note).edge("fast", name);
    }
    let graph = graph.node_as("z", declared()).edge("fast", "z").eager().compile().unwrap();
    let run = tokio::spawn({
        let probe = probe.clone();
        let graph = graph.with(RunOptions::new().max_concurrency(2));
        async move { graph.invoke(Trail::default(), probe).await }
    });
    probe.started("z").await;
    yield_to_tasks().await;
    probe.unblock("slow");
    assert_eq!(failed_node(&run.await.unwrap().unwrap_err()), "late");
}

#[tokio::test(start_paused = true)]
async fn node_timeouts_do_not_run_while_a_task_waits_for_its_step() {
    async fn slow(_: &Trail) -> TrailUpdate {
        tokio::time::sleep(Duration::from_secs(100)).await;
        visited("slow")
    }
    async fn first(_: &Trail) -> TrailUpdate {
        visited("first")
    }
    async fn inner(_: &Trail) -> TrailUpdate {
        tokio::time::sleep(Duration::from_secs(3)).await;
        visited("inner")
    }
    async fn outer(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
        cx.deps().enter(cx.step(), cx.node()).await?;
        let graph = StateGraph::<Trail, Probe>::new().node(inner).edge(START, inner).compile()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let state = cx.run_graph(&graph, Persistence::Invocation, Trail::default()).await?;
        Ok(Trail::update().path(state.unwrap_or_default().path))
    }
    for (limit, idle, passes) in [(7, 4, true), (5, 4, false), (7, 2, false)] {
        let limited = outer.timeout(Duration::from_secs(limit));
        let limited = limited.idle_timeout(Duration::from_secs(idle));
        let graph = StateGraph::<Trail, Probe>::new()
            .node(slow.reads(["note"]).writes(["path"]))
            .node(first.reads(["note"]).writes(["path"]))
            .node_as("outer", limited.reads(["note"]).writes(["path"]))
            .edge(START, slow)
            .edge(START, first)
            .edge(first, "outer")
            .eager()
            .compile()
            .unwrap();
        let result = graph.invoke(Trail::default(), Probe::default()).await;
        assert_eq!(result.is_ok(), passes, "timeout {limit} s, idle timeout {idle} s: {result:?}");
    }
}
