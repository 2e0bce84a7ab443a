//! The wide state on cognis-graph.

use std::convert::identity;

use cognis_graph::{BarrierNode, CompiledGraph, Goto, Graph, GraphState, NodeFn, NodeOut, node_fn};
use peer_support::{
    data::{self, Document},
    protocol::Job,
    wide_nodes,
};
use serde_json::Value;

use crate::run;

// In an update, fields with and without a reducer have the same type. An empty field changes nothing.
wide_nodes!(identity, identity);

/// A state with many fields and reducers.
#[derive(GraphState, Clone, Debug, Default)]
pub struct Wide {
    size: usize,
    #[reducer(append)]
    messages: Vec<Document>,
    #[reducer(append)]
    trigger_events: Vec<Document>,
    #[reducer(append)]
    categorizations: Vec<Document>,
    #[reducer(append)]
    responses: Vec<Document>,
    primary_issue_medium: Option<String>,
    autoresponse: Option<Document>,
    issue: Option<Document>,
    relevant_rules: Vec<Document>,
    memory_docs: Vec<Document>,
    user_info: Option<Document>,
    crm_info: Option<Document>,
    email_thread_id: Option<String>,
    #[reducer(custom = "merge")]
    slack_participants: People,
    bot_id: Option<String>,
    #[reducer(custom = "merge")]
    notified_assignees: People,
}

pub fn prepare(size: usize, store: fn(CompiledGraph<Wide>) -> CompiledGraph<Wide>) -> Job {
    let document = data::document(size);
    let input = move || Wide { size, messages: vec![document.clone()], ..Wide::default() };
    run(store(graph()), input, answer)
}

fn graph() -> CompiledGraph<Wide> {
    let parallel = || Goto::Multiple(vec!["three".to_owned(), "four".to_owned()]);
    // A barrier waits for both branches.
    let join = || Goto::Send(vec![("join".to_owned(), Value::Null)]);
    Graph::new()
        .node("one", node("one", one, |_| Goto::node("two")))
        .node("two", node("two", two, move |_| parallel()))
        .node("three", node("three", three, move |_| join()))
        .node("four", node("four", four, move |_| join()))
        .node("join", BarrierNode::new("join", 2, "five"))
        .node("five", node("five", five, |_| Goto::node("six")))
        .node("six", node("six", six, again))
        .start_at("one")
        .compile()
        .expect("the graph is valid")
}

/// Creates a node from a function that computes an update and one that routes on the state before the update.
fn node(
    name: &str,
    update: fn(&Wide) -> WideUpdate,
    route: impl Fn(&Wide) -> Goto + Send + Sync + 'static,
) -> impl cognis_graph::Node<Wide> {
    let node: NodeFn<Wide, _> = node_fn(name, move |wide: &Wide, _: &cognis_graph::NodeCtx<'_>| {
        let (update, goto) = (update(wide), route(wide));
        async move { Ok(NodeOut { update, goto }) }
    });
    node
}

fn again(wide: &Wide) -> Goto {
    let length = wide.messages.len() + wide.responses.len();
    if length > wide.size { Goto::end() } else { Goto::node("one") }
}
