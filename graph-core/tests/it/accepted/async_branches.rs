//! A branch may be an async function or an async closure that captures variables.

use graph_core::{Context, Goto, NodeError, START, State, StateGraph, named};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[allow(dead_code, reason = "only its type matters")]
struct Llm;

async fn write(_: &Essay) {}

async fn choose(_: &Essay) -> Goto {
    Goto::end()
}

async fn choose_with(_: &Essay, cx: &Context<Llm>) -> Result<Goto, NodeError> {
    let _: &Llm = cx.deps();
    Ok(Goto::end())
}

#[test]
fn branches_may_be_async() {
    let captured = "write".to_owned();
    let name = captured.clone();
    let closure = named("closure", async move |_: &Essay| {
        tokio::task::yield_now().await;
        Essay::update().topic(captured.as_str())
    });
    let graph = StateGraph::<Essay, Llm>::new()
        .node(write)
        .node(&closure)
        .edge(START, &closure)
        .edge(&closure, write)
        .branch(START, choose)
        .branch(write, choose_with)
        .branch(&closure, async move |_: &Essay| Goto::node(name.clone()))
        .compile();
    assert!(graph.is_ok());
}
