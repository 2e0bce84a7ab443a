//! All node signatures and return types.

use graph_core::{
    Command, Context, Goto, NodeError, Route, START, State, StateGraph, Terminal, goto, send,
};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    drafts: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Section(String);

#[allow(dead_code, reason = "only its type matters")]
struct Llm;

async fn on_state(_: &Essay) -> EssayUpdate {
    Essay::update().topic("x")
}
async fn on_state_with(_: &Essay, cx: &Context<Llm>) -> EssayUpdate {
    let _: &Llm = cx.deps();
    Essay::update()
}
async fn on_payload(_: Section) -> EssayUpdate {
    Essay::update()
}
async fn on_payload_with(_: Section, _: &Context<Llm>) -> EssayUpdate {
    Essay::update()
}
async fn nothing(_: &Essay) {}
async fn maybe(_: &Essay) -> Option<EssayUpdate> {
    None
}
async fn many(_: &Essay) -> Vec<EssayUpdate> {
    vec![]
}
async fn fallible(_: &Essay) -> Result<EssayUpdate, NodeError> {
    "3".parse::<u32>().terminal()?;
    Ok(Essay::update())
}
async fn own_error(_: &Essay) -> Result<(), std::num::ParseIntError> {
    "3".parse::<u32>().map(|_| ())
}
async fn command(_: &Essay) -> Command<Essay> {
    Command::update(Essay::update().drafts(["a".to_owned()]))
}
async fn routed(_: &Essay) -> Command<Essay, Next> {
    Essay::update().goto(Next::Write(vec![Section("a".into())]))
}
async fn fallible_routed(_: &Essay) -> Result<Command<Essay, Vec<Goto>>, NodeError> {
    Ok(Command::goto(vec![goto(on_state), send(on_payload, Section("b".into()))]))
}
async fn goto_end(_: &Essay) -> Goto {
    Goto::end()
}
async fn generic<T: Default + Send + Sync + 'static>(_: &Essay) -> EssayUpdate {
    let _ = T::default();
    Essay::update()
}

struct Agent;
impl Agent {
    async fn act(_: &Essay) -> EssayUpdate {
        Essay::update()
    }
}

#[derive(Route)]
enum Next {
    #[to(on_payload)]
    Write(Vec<Section>),
    #[to(on_payload_with)]
    One(Section),
    #[to(on_state, on_state_with)]
    Both,
    #[to("closure")]
    Closure,
    #[to(graph_core::END)]
    End,
}

fn branch(_: &Essay) -> Next {
    Next::One(Section("c".into()))
}
fn branch_with(_: &Essay, _: &Llm) -> Result<Option<Next>, NodeError> {
    Ok(Some(
        [Next::Both, Next::Closure, Next::End].into_iter().next().expect("the array is not empty"),
    ))
}

#[test]
fn nodes_may_have_any_signature() {
    let captured = "captured".to_owned();
    let graph = StateGraph::<Essay, Llm>::new()
        .node(on_state)
        .node(on_state_with)
        .node(on_payload)
        .node(on_payload_with)
        .node(nothing)
        .node(maybe)
        .node(many)
        .node(fallible)
        .node(own_error)
        .node(command)
        .node(routed)
        .node(fallible_routed)
        .node(goto_end)
        .node(generic::<u8>)
        .node(Agent::act)
        .node_as("closure", async |_: &Essay| Essay::update())
        .node_as("with context", async |_: &Essay, _: &Context<Llm>| ())
        .node_as("captures", move |_: &Essay| {
            let text = captured.clone();
            async move { Essay::update().topic(text) }
        })
        .sequence((on_state, on_state_with, nothing, maybe, many, fallible))
        .edge(fallible, own_error)
        .edge(own_error, "closure".to_owned())
        .join((on_payload, on_payload_with), command)
        .join(["closure", "captures"], routed)
        .branch(START, branch)
        .branch(on_state, branch_with)
        .branch(command, |_: &Essay| vec![goto(Agent::act), goto(generic::<u8>)])
        .compile();
    assert!(graph.is_ok());
}
