//! Nodes: every signature, every return, names, panics and errors.

use std::sync::Arc;

use graph_core::{
    Command, Context, Goto, NodeError, NodePanic, RunError, START, StateGraph, goto, send,
};

use crate::support::{Broken, Item, Trail, TrailUpdate, been, failed_node, trail};

type Deps = Arc<str>;

async fn on_state(state: &Trail) -> TrailUpdate {
    been(&format!("state {}", state.path.len()))
}

async fn on_state_with(_: &Trail, cx: &Context<Deps>) -> TrailUpdate {
    been(&format!("{} {}", cx.node(), cx.deps()))
}

async fn on_payload(item: Item) -> TrailUpdate {
    been(&format!("payload {}", item.0))
}

async fn on_payload_with(item: Item, cx: &Context<Deps>) -> TrailUpdate {
    been(&format!("payload {} {}", item.0, cx.deps()))
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
    let state = graph.run(Trail::default(), Arc::from("deps")).await.unwrap();
    assert_eq!(state, trail(["state 0", "on_state_with deps", "payload 1", "payload 2 deps"]));
}

#[tokio::test]
async fn closures_are_nodes_under_a_name() {
    let prefix = "from".to_owned();
    let moved = prefix.clone();
    let graph = StateGraph::<Trail>::new()
        .node_as("async", async |it: &Trail| been(&format!("async {}", it.path.len())))
        .node_as("captures", move |_: &Trail| {
            let text = format!("{moved} outside");
            async move { been(&text) }
        })
        .node_as("context", async |_: &Trail, cx: &Context| been(cx.node()))
        .node_as("payload", async |item: Item| been(&item.0.to_string()))
        .sequence(["async", "captures", "context"])
        .branch("context", |_: &Trail| Goto::send("payload", serde_json::json!(5)))
        .compile()
        .unwrap();
    let state = graph.run(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["async 0", "from outside", "context", "5"]));
    assert_eq!(prefix, "from");
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
    been(W::WORD)
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
    assert_eq!(graph.run(Trail::default(), ()).await.unwrap(), trail(["hello", "bye"]));
}

struct Agent {
    name: String,
}

impl Agent {
    async fn act(_: &Trail) -> TrailUpdate {
        been("acted")
    }

    async fn think(&self, state: &Trail) -> TrailUpdate {
        been(&format!("{} thought after {}", self.name, state.path.len()))
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
    let state = graph.run(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["acted", "ada thought after 1"]));
}

async fn nothing(_: &Trail) {}

async fn some(_: &Trail) -> Option<TrailUpdate> {
    Some(been("some"))
}

async fn none(_: &Trail) -> Option<TrailUpdate> {
    None
}

async fn several(_: &Trail) -> Vec<TrailUpdate> {
    vec![been("1"), been("2")]
}

async fn fine(_: &Trail) -> Result<TrailUpdate, NodeError> {
    Ok(been("fine"))
}

async fn fine_maybe(_: &Trail) -> Result<Option<TrailUpdate>, Broken> {
    Ok(Some(been("maybe")))
}

async fn command(_: &Trail) -> Command<Trail> {
    Command::update(been("command"))
}

async fn fine_command(_: &Trail) -> Result<Command<Trail, Goto>, NodeError> {
    Ok(been("told").goto(goto(end)))
}

async fn end(_: &Trail) -> Result<(), NodeError> {
    Ok(())
}

#[tokio::test]
async fn a_node_returns_an_update_or_what_holds_one() {
    let graph = StateGraph::<Trail>::new()
        .node(nothing)
        .node(some)
        .node(none)
        .node(several)
        .node(fine)
        .node(fine_maybe)
        .node(command)
        .node(fine_command)
        .node(end)
        .sequence((nothing, some, none, several, fine, fine_maybe, command, fine_command))
        .compile()
        .unwrap();
    let state = graph.run(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["some", "1", "2", "fine", "maybe", "command", "told"]));
}

async fn mixed(_: &Trail) -> Vec<Command<Trail, Goto>> {
    vec![been("x").goto(goto(on_state)), Command::goto(send(on_payload, Item(3)))]
}

#[tokio::test]
async fn a_node_returns_several_commands() {
    let graph = StateGraph::<Trail>::new()
        .node(mixed)
        .node(on_state)
        .node(on_payload)
        .edge(START, mixed)
        .compile()
        .unwrap();
    let state = graph.run(Trail::default(), ()).await.unwrap();
    assert_eq!(state, trail(["x", "state 1", "payload 3"]));
}

async fn panics(_: &Trail) -> TrailUpdate {
    panic!("at the {}", "disco")
}

#[tokio::test]
async fn a_panic_becomes_an_error_that_names_the_node() {
    for beside in [false, true] {
        let mut graph = StateGraph::<Trail>::new().node(panics).node(on_state).edge(START, panics);
        if beside {
            graph = graph.edge(START, on_state);
        }
        let error = graph.compile().unwrap().run(Trail::default(), ()).await.unwrap_err();
        assert_eq!(failed_node(&error), "panics");
        assert_eq!(error.node_error::<NodePanic>().unwrap().message, "at the disco");
        assert!(error.to_string().contains("`panics`"), "{error}");
    }
}

#[tokio::test]
async fn a_nodes_error_keeps_its_type() {
    async fn fails(_: &Trail) -> Result<TrailUpdate, Broken> {
        Err(Broken("glass".into()))
    }
    let graph = StateGraph::<Trail>::new().node(fails).edge(START, fails).compile().unwrap();
    let error = graph.run(Trail::default(), ()).await.unwrap_err();
    assert_eq!(error.node_error::<Broken>(), Some(&Broken("glass".into())));
    assert!(error.node_error::<NodePanic>().is_none());
    assert_eq!(error.to_string(), "node `fails` failed in step 1: `glass` is broken");
    let RunError::Node { step, terminal, .. } = error else { panic!("{error}") };
    assert_eq!((step, terminal), (1, false));
}

#[tokio::test]
async fn a_nodes_error_may_be_text() {
    async fn fails(_: &Trail) -> Result<TrailUpdate, NodeError> {
        Err("out of luck")?;
        Ok(been("never"))
    }
    let graph = StateGraph::<Trail>::new().node(fails).edge(START, fails).compile().unwrap();
    let error = graph.run(Trail::default(), ()).await.unwrap_err();
    assert!(error.to_string().ends_with("out of luck"), "{error}");
}
