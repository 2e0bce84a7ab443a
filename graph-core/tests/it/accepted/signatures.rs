//! Signatures of nodes and branches that other tests do not use.

use graph_core::{Command, Context, Goto, NodeError, Route, START, State, StateGraph, goto, send};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Section(String);

#[allow(dead_code, reason = "only its type matters")]
struct Llm;

async fn write(_: Section) {}

async fn own_error(essay: &Essay) -> Result<(), std::num::ParseIntError> {
    essay.topic.parse::<u32>().map(|_| ())
}

async fn several_targets(_: &Essay) -> Result<Command<Essay, Vec<Goto>>, NodeError> {
    Ok(Command::goto(vec![goto(own_error), send(write, Section("b".into()))]))
}

async fn goto_end(_: &Essay) -> Goto {
    Goto::end()
}

#[derive(Route)]
enum Next {
    #[to(write)]
    Write(Vec<Section>),
    #[to(several_targets, goto_end)]
    Both,
}

fn branch(essay: &Essay, _: &Llm) -> Result<Option<Next>, NodeError> {
    let sections = || Next::Write(vec![Section(essay.topic.clone())]);
    Ok(Some(if essay.topic.is_empty() { Next::Both } else { sections() }))
}

async fn async_branch(_: &Essay, cx: &Context<Llm>) -> Result<Goto, NodeError> {
    let _: &Llm = cx.deps();
    Ok(Goto::end())
}

#[test]
fn nodes_and_branches_may_have_any_signature() {
    let graph = StateGraph::<Essay, Llm>::new()
        .node(write)
        .node(own_error)
        .node(several_targets)
        .node(goto_end)
        .branch(START, branch)
        .branch(own_error, async_branch)
        .edge(own_error, "goto_end".to_owned())
        .compile();
    assert!(graph.is_ok());
}
