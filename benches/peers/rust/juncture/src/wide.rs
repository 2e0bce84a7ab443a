//! The wide state on juncture.

use std::sync::Arc;

use juncture_core::{CompiledGraph, END, JunctureError, StateGraph, node::NodeFnUpdate};
use juncture_derive::State;
use peer_support::{
    data::{self, Document},
    protocol::Job,
    wide_nodes,
};
use serde::{Deserialize, Serialize};

use crate::{Saver, again, run};

// Every field of an update is an `Option` of the field's type.
wide_nodes!(Some, Some);

/// A state with many fields and reducers.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Wide {
    size: usize,
    #[reducer(append)]
    messages: Vec<Document>,
    #[reducer(append)]
    trigger_events: Vec<Document>,
    #[reducer(append)]
    categorizations: Vec<Document>,
    #[reducer(append)]
    responses: Vec<Document>,
    #[reducer(custom = new_or_old)]
    primary_issue_medium: Option<String>,
    autoresponse: Option<Document>,
    #[reducer(custom = new_or_old)]
    issue: Option<Document>,
    relevant_rules: Vec<Document>,
    memory_docs: Vec<Document>,
    #[reducer(custom = new_or_old)]
    user_info: Option<Document>,
    #[reducer(custom = new_or_old)]
    crm_info: Option<Document>,
    #[reducer(custom = new_or_old)]
    email_thread_id: Option<String>,
    #[reducer(custom = merge)]
    slack_participants: People,
    bot_id: Option<String>,
    #[reducer(custom = merge)]
    notified_assignees: People,
}

fn new_or_old<T>(value: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *value = new;
    }
}

pub fn prepare(size: usize, saver: Option<Saver>) -> Job {
    let document = data::document(size);
    let input = move || Wide { size, messages: vec![document.clone()], ..Wide::default() };
    run(graph(saver), input, answer)
}

fn wide_again(wide: &Wide) -> &str {
    if wide.messages.len() > wide.size { END } else { "again" }
}

fn graph(saver: Option<Saver>) -> CompiledGraph<Wide> {
    let nodes: [(&str, fn(&Wide) -> WideUpdate); 6] = [
        ("one", one),
        ("two", two),
        ("three", three),
        ("four", four),
        ("five", five),
        ("six", six),
    ];
    let mut graph = StateGraph::new();
    for (name, update) in nodes {
        let node = NodeFnUpdate(move |wide: &Wide| {
            let update = update(wide);
            async move { Ok::<_, JunctureError>(update) }
        });
        graph.add_node_simple(name, node).expect("the name is unique");
    }
    graph.set_entry_point("one");
    // The branches end in the same step, so the node after them runs once.
    for (from, to) in [
        ("one", "two"),
        ("two", "three"),
        ("two", "four"),
        ("three", "five"),
        ("four", "five"),
        ("five", "six"),
    ] {
        graph.add_edge(from, to);
    }
    graph.add_conditional_edges("six", Arc::new(wide_again), again("one"));
    graph.compile_with_checkpointer(saver).expect("the graph is valid")
}
