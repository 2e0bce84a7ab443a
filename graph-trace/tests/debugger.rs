//! Tests of the debugger: steps, edits, breakpoints, branches and subgraphs.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::atomic::{AtomicU32, Ordering};

use graph_core::{
    AsNode, CompiledGraph, Context, Input, MemorySaver, NodeError, Route, START, State, StateGraph,
    Stops, subgraph,
};
use graph_trace::{Debugger, ForkError, StepTrace, record_thread};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    parts: Vec<String>,
    rounds: u32,
}

async fn plan(essay: &Essay) -> EssayUpdate {
    Essay::update().parts([format!("plan {}", essay.topic)])
}

async fn left(essay: &Essay) -> EssayUpdate {
    Essay::update().parts([format!("left {}", essay.topic)])
}

async fn right(essay: &Essay) -> EssayUpdate {
    Essay::update().parts([format!("right {}", essay.topic)])
}

async fn bind(essay: &Essay) -> EssayUpdate {
    Essay::update().parts([format!("bind {}", essay.topic)])
}

fn diamond() -> CompiledGraph<Essay> {
    StateGraph::<Essay>::new()
        .node(plan)
        .node(left)
        .node(right)
        .node(bind)
        .edge(START, plan)
        .edge(plan, left)
        .edge(plan, right)
        .join((left, right), bind)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap()
}

async fn round(essay: &Essay) -> EssayUpdate {
    Essay::update().rounds(essay.rounds + 1)
}

#[derive(Route)]
enum Next {
    #[to(round)]
    Again,
    #[to(bind)]
    Bind,
}

fn enough(essay: &Essay) -> Next {
    if essay.rounds < 5 { Next::Again } else { Next::Bind }
}

fn cycle() -> CompiledGraph<Essay> {
    StateGraph::<Essay>::new()
        .node(round)
        .node(bind)
        .edge(START, round)
        .branch(round, enough)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap()
}

fn tea() -> Essay {
    Essay { topic: "tea".into(), ..Essay::default() }
}

fn nodes(step: &StepTrace) -> Vec<&str> {
    step.tasks.iter().map(|it| &*it.node).collect()
}

fn parts<C: Send + Sync + 'static>(debugger: &Debugger<Essay, C>) -> Vec<&str> {
    debugger.state().unwrap().parts.iter().map(|it| &**it).collect()
}

#[tokio::test]
async fn each_step_halts_before_the_next_one() {
    let mut debugger = Debugger::new(diamond().thread("t", ()));
    let start = debugger.start(tea()).await.unwrap();
    assert!(start.tasks.is_empty());
    assert_eq!(start.state.unwrap()["topic"], "tea");
    assert_eq!(debugger.next(), ["plan"]);
    assert!(parts(&debugger).is_empty());

    let step = debugger.step().await.unwrap().unwrap();
    assert_eq!((step.step, nodes(&step)), (1, vec!["plan"]));
    assert_eq!(step.tasks[0].writes[0].field, "parts");
    assert_eq!(parts(&debugger), ["plan tea"]);
    assert_eq!(debugger.next(), ["left", "right"]);

    assert_eq!(nodes(&debugger.step().await.unwrap().unwrap()), ["left", "right"]);
    assert_eq!(nodes(&debugger.step().await.unwrap().unwrap()), ["bind"]);
    assert!(debugger.is_done());
    assert!(debugger.step().await.unwrap().is_none());
    assert_eq!(parts(&debugger), ["plan tea", "left tea", "right tea", "bind tea"]);
}

#[tokio::test]
async fn stepping_yields_the_trace_of_an_uninterrupted_run() {
    for graph in [diamond(), cycle()] {
        let mut debugger = Debugger::new(graph.thread("stepped", ()));
        debugger.start(tea()).await.unwrap();
        debugger.continue_run().await.unwrap();
        let whole = record_thread(&graph.thread("whole", ()), tea()).await.trace;
        assert_eq!(debugger.trace(), whole);
    }
}

#[tokio::test]
async fn an_edit_only_changes_the_state() {
    let mut debugger = Debugger::new(diamond().thread("t", ()));
    debugger.start(tea()).await.unwrap();
    debugger.step().await.unwrap();
    debugger.step().await.unwrap();
    // Two nodes ran last. Unlike `edit_as`, `edit` need not specify one of them and does not trigger the join again.
    debugger.edit(Essay::update().topic("coffee")).await.unwrap();
    assert_eq!(debugger.state().unwrap().topic, "coffee");
    assert_eq!(debugger.next(), ["bind"]);
    assert_eq!(debugger.thread_state().unwrap().step, 2);
    debugger.edit(Essay::update().rounds(9)).await.unwrap();
    assert_eq!(nodes(&debugger.step().await.unwrap().unwrap()), ["bind"]);
    assert_eq!(parts(&debugger).last(), Some(&"bind coffee"));
    assert_eq!(debugger.state().unwrap().rounds, 9);
}

#[tokio::test]
async fn an_edit_as_a_node_recomputes_the_next_nodes() {
    let mut debugger = Debugger::new(cycle().thread("t", ()));
    debugger.start(tea()).await.unwrap();
    debugger.step().await.unwrap();
    assert_eq!(debugger.next(), ["round"]);
    let update = Essay::update().rounds(5);
    debugger.edit_as(update, AsNode::node("round")).await.unwrap();
    assert_eq!(debugger.next(), ["bind"]);
    debugger.continue_run().await.unwrap();
    assert_eq!(debugger.state().unwrap().rounds, 5);
}

#[tokio::test]
async fn runs_halt_at_breakpoints_on_nodes_and_states() {
    let thread = cycle().thread("t", ());
    let mut debugger = Debugger::new(thread).break_when(|it| it.rounds == 2).break_before("bind");
    debugger.start(tea()).await.unwrap();
    assert_eq!(debugger.continue_run().await.unwrap().len(), 2);
    assert_eq!(debugger.state().unwrap().rounds, 2);
    assert_eq!(debugger.continue_run().await.unwrap().len(), 3);
    assert_eq!(debugger.next(), ["bind"]);
    assert!(parts(&debugger).is_empty());

    let mut free = debugger.fork_at(0).await.unwrap();
    free.clear_breakpoints();
    assert_eq!(free.continue_run().await.unwrap().len(), 6);
    assert!(free.is_done());
}

#[tokio::test]
async fn branches_are_independent() {
    let mut first = Debugger::new(diamond().thread("t", ()));
    first.start(tea()).await.unwrap();
    first.step().await.unwrap();
    first.step().await.unwrap();

    let mut second = first.fork_at(1).await.unwrap();
    assert_eq!(second.next(), ["left", "right"]);
    second.edit(Essay::update().topic("coffee")).await.unwrap();
    second.step().await.unwrap();

    // The first debugger continues from its own position, even though the thread has advanced.
    assert_eq!(first.next(), ["bind"]);
    first.continue_run().await.unwrap();
    assert_eq!(parts(&first), ["plan tea", "left tea", "right tea", "bind tea"]);
    second.continue_run().await.unwrap();
    assert_eq!(parts(&second), ["plan tea", "left coffee", "right coffee", "bind coffee"]);

    let problem = first.fork_at(77).await.unwrap_err();
    assert!(matches!(&problem, ForkError::UnknownStep { step: 77, steps } if steps.contains(&1)));
}

#[tokio::test]
async fn a_failed_step_is_retried() {
    async fn fragile(_: &Essay, cx: &Context<AtomicU32>) -> Result<EssayUpdate, NodeError> {
        match cx.deps().fetch_add(1, Ordering::SeqCst) {
            0 => Err("out of paper".into()),
            _ => Ok(Essay::update().parts(["printed".to_owned()])),
        }
    }
    let graph = StateGraph::<Essay, AtomicU32>::new()
        .node(fragile)
        .edge(START, fragile)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let mut debugger = Debugger::new(graph.thread("t", AtomicU32::new(0)));
    debugger.start(tea()).await.unwrap();
    let error = debugger.step().await.unwrap_err();
    assert!(error.to_string().contains("out of paper"), "{error}");
    let trace = debugger.trace();
    let task = &trace.root.steps.last().unwrap().tasks[0];
    assert_eq!(task.error.as_deref(), Some("out of paper"));
    assert_eq!(debugger.thread_state().unwrap().tasks[0].error.as_deref(), Some("out of paper"));

    assert_eq!(nodes(&debugger.step().await.unwrap().unwrap()), ["fragile"]);
    assert_eq!(parts(&debugger), ["printed"]);
}

#[tokio::test]
async fn an_interrupt_halts_and_can_be_answered() {
    async fn ask(_: &Essay, cx: &Context) -> Result<EssayUpdate, NodeError> {
        let title: String = cx.interrupt("which title?")?;
        Ok(Essay::update().parts([title]))
    }
    let graph = StateGraph::<Essay>::new()
        .node(ask)
        .node(bind)
        .sequence((ask, bind))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let mut debugger = Debugger::new(graph.thread("t", ()));
    debugger.start(tea()).await.unwrap();
    assert_eq!(debugger.continue_run().await.unwrap().len(), 1);
    assert_eq!(debugger.interrupts().next().unwrap().value, "which title?");
    assert!(debugger.step().await.unwrap().is_none());
    let step = debugger.answer("On tea").await.unwrap();
    assert_eq!(nodes(&step), ["ask"]);
    assert_eq!(debugger.next(), ["bind"]);
    debugger.continue_run().await.unwrap();
    assert_eq!(parts(&debugger), ["On tea", "bind tea"]);
}

fn nested(stops: Stops) -> CompiledGraph<Essay> {
    let inner = StateGraph::<Essay>::new()
        .node(left)
        .node(right)
        .sequence((left, right))
        .stop_before(stops)
        .compile()
        .unwrap();
    let output = |it: Essay| Essay::update().parts(it.parts);
    let input = |it: &Essay| Essay { topic: it.topic.clone(), ..Essay::default() };
    StateGraph::<Essay>::new()
        .node(plan)
        .node(subgraph("inner", &inner, input, output))
        .edge(START, plan)
        .edge(plan, "inner")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap()
}

#[tokio::test]
async fn a_subgraph_is_one_step_unless_it_has_stops() {
    let mut debugger = Debugger::new(nested(Stops::None).thread("t", ()));
    debugger.start(tea()).await.unwrap();
    debugger.step().await.unwrap();
    let step = debugger.step().await.unwrap().unwrap();
    assert_eq!(step.tasks[0].graphs[0].steps.len(), 3);
    assert!(debugger.is_done());

    let mut debugger = Debugger::new(nested(Stops::All).thread("t", ()));
    debugger.start(tea()).await.unwrap();
    // The run halts at the stop of the subgraph, even though there is no breakpoint.
    assert_eq!(debugger.continue_run().await.unwrap().len(), 2);
    let inner = debugger.thread_state().unwrap().tasks[0].subgraph.clone().unwrap();
    assert_eq!(inner.next, ["left"]);
    debugger.continue_run().await.unwrap();
    let inner = debugger.thread_state().unwrap().tasks[0].subgraph.clone().unwrap();
    assert_eq!(
        (inner.next, inner.values["parts"][0].clone()),
        (vec!["right".into()], "left tea".into())
    );
    assert_eq!(debugger.next(), ["inner"]);
    debugger.continue_run().await.unwrap();
    assert!(debugger.is_done());
    assert_eq!(parts(&debugger), ["plan tea", "left tea", "right tea"]);
    // The trace contains all steps, even though it took three runs to execute them.
    let trace = debugger.trace();
    let inner = &trace.root.steps.last().unwrap().tasks[0].graphs[0];
    let ran: Vec<_> = inner.steps.iter().flat_map(nodes).collect();
    assert_eq!(ran, ["left", "right"]);
}

#[tokio::test]
async fn a_new_debugger_continues_an_existing_thread() {
    let thread = diamond().thread("t", ());
    let mut first = Debugger::new(thread.clone());
    assert!(first.step().await.is_err(), "the thread has not been started");
    first.start(tea()).await.unwrap();
    first.step().await.unwrap();
    drop(first);

    let mut second = Debugger::new(thread.clone());
    assert_eq!(nodes(&second.step().await.unwrap().unwrap()), ["left", "right"]);
    let _exit = thread.run(Input::proceed()).await.unwrap();
    assert_eq!(second.next(), ["bind"], "it keeps its last known state");
}
