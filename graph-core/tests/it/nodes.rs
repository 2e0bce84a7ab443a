//! Nodes: signatures, return types, names, panics and errors.

use std::sync::Arc;

use graph_core::{
    Command, Context, Goto, NodeError, NodePanicError, RunError, START, StateGraph, goto, send,
};

use crate::support::{InjectedError, Item, Trail, TrailUpdate, failed_node, trail, visited};

type Deps = Arc<str>;

async fn on_state(state: &Trail) -> TrailUpdate {
    visited(&format!("state {}", state.path.len()))
}

async fn on_state_with(_: &Trail, cx: &Context<Deps>) -> TrailUpdate {
    visited(&format!("{} {}", cx.node(), cx.deps()))
}

async fn on_payload(item: Item) -> TrailUpdate {
    visited(&format!("payload {}", item.0))
}

async fn on_payload_with(item: Item, cx: &Context<Deps>) -> TrailUpdate {
    visited(&format!("payload {} {}", item.0, cx.deps()))
}

#[tokio::test]
async fn a_node_has_one_of_four_signatures() {
    let graph = StateGraph::<Trail, Deps>::new()
        .node(on_state)
        .node(on_state_with)
        .node(on_payload)
        .node(on_payload_with)
        .edge(START, on_state)
        .edge(on_state, on_state_with)
        .branch(on_state_with, |_: &Trail| {
            vec![send(on_payload, Item(1)), send(on_payload_with, Item(2))]
        })
        .compile()
        .unwrap();
    let state = graph.invoke(Trail::default(), Arc::from("deps")).await.unwrap();
    assert_eq!(state, trail(["state 0", "on_state_with deps", "payload 1", "payload 2 deps"]));
}

trait Word: Send + Sync + 'static {
    const WORD: &'static str;
}

struct Hello;

impl Word for Hello {
    const WORD: &'static str = "hello";
}

struct Bye;

impl Word for Bye {
    const WORD: &'static str = "bye";
}

async fn say<W: Word>(_: &Trail) -> TrailUpdate {
    visited(W::WORD)
}

#[tokio::test]
async fn generic_functions_are_nodes() {
    let graph = StateGraph::<Trail>::new()
        .node(say::<Hello>)
        .node_as("bye", say::<Bye>)
        .edge(START, say::<Hello>)
        .edge(say::<Hello>, "bye")
        .compile()
        .unwrap();
    assert_eq!(graph.nodes(), ["bye", "say"]);
    assert_eq!(graph.invoke(Trail::default(), ()).await.unwrap(), trail(["hello", "bye"]));
}

struct Agent {
    name: String,
}

impl Agent {
    async fn act(_: &Trail) -> TrailUpdate {
        visited("acted")
    }

    async fn think(&self, state: &Trail) -> TrailUpdate {
        visited(&format!("{} thought after {}", self.name, state.path.len()))
    }
}

#[tokio::test]
async fn methods_are_nodes() {
    let agent = Arc::new(Agent { name: "ada".into() });
    let graph = StateGraph::<Trail>::new()
        .node(Agent::act)
        .node_as("think", move |state: &Trail| {
            let (agent, state) = (agent.clone(), state.clone());
            async move { agent.think(&state).await }
        })
        .edge(START, Agent::act)
        .edge(Agent::act, "think")
        .compile()
        .unwrap();
    let state = graph.invoke(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["acted", "ada thought after 1"]));
}

async fn nothing(_: &Trail) {}

async fn some(_: &Trail) -> Option<TrailUpdate> {
    Some(visited("some"))
}

async fn none(_: &Trail) -> Option<TrailUpdate> {
    None
}

async fn several(_: &Trail) -> Vec<TrailUpdate> {
    vec![visited("1"), visited("2")]
}

async fn ok_update(_: &Trail) -> Result<TrailUpdate, NodeError> {
    Ok(visited("ok_update"))
}

async fn ok_option(_: &Trail) -> Result<Option<TrailUpdate>, InjectedError> {
    Ok(Some(visited("maybe")))
}

async fn command(_: &Trail) -> Command<Trail> {
    Command::update(visited("command"))
}

async fn ok_command(_: &Trail) -> Result<Command<Trail, Goto>, NodeError> {
    Ok(visited("ok command").goto(goto(end)))
}

async fn end(_: &Trail) -> Result<(), NodeError> {
    Ok(())
}

#[tokio::test]
async fn a_node_can_return_updates_options_lists_results_and_commands() {
    let graph = StateGraph::<Trail>::new()
        .node(nothing)
        .node(some)
        .node(none)
        .node(several)
        .node(ok_update)
        .node(ok_option)
        .node(command)
        .node(ok_command)
        .node(end)
        .sequence((nothing, some, none, several, ok_update, ok_option, command, ok_command))
        .compile()
        .unwrap();
    let state = graph.invoke(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["some", "1", "2", "ok_update", "maybe", "command", "ok command"]));
}

async fn mixed(_: &Trail) -> Vec<Command<Trail, Goto>> {
    vec![visited("x").goto(goto(on_state)), Command::goto(send(on_payload, Item(3)))]
}

#[tokio::test]
async fn a_node_can_return_several_commands() {
    let graph = StateGraph::<Trail>::new()
        .node(mixed)
        .node(on_state)
        .node(on_payload)
        .edge(START, mixed)
        .compile()
        .unwrap();
    let state = graph.invoke(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["x", "state 1", "payload 3"]));
}

async fn panics(_: &Trail) -> TrailUpdate {
    panic!("code {}", 7)
}

#[tokio::test]
async fn a_panic_becomes_an_error_with_the_node_name() {
    for beside in [false, true] {
        let mut graph = StateGraph::<Trail>::new().node(panics).edge(START, panics);
        if beside {
            graph = graph.node(on_state).edge(START, on_state);
        }
        let error = graph.compile().unwrap().invoke(Trail::default(), ()).await.unwrap_err();
        assert_eq!(failed_node(&error), "panics");
        assert_eq!(error.node_error::<NodePanicError>().unwrap().message, "code 7");
        assert!(error.to_string().contains("`panics`"), "{error}");
    }
}

#[tokio::test]
async fn a_node_error_keeps_its_type() {
    async fn fails(_: &Trail) -> Result<TrailUpdate, InjectedError> {
        Err(InjectedError("x".into()))
    }
    let graph = StateGraph::<Trail>::new().node(fails).edge(START, fails).compile().unwrap();
    let error = graph.invoke(Trail::default(), ()).await.unwrap_err();
    assert_eq!(error.node_error::<InjectedError>(), Some(&InjectedError("x".into())));
    assert!(error.node_error::<NodePanicError>().is_none());
    assert_eq!(error.to_string(), "node `fails` failed in step 1: injected failure of `x`");
    let RunError::Node { step, terminal, .. } = error else { panic!("{error}") };
    assert_eq!((step, terminal), (1, false));
}
