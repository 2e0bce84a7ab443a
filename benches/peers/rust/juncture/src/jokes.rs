//! The fan-out to a subgraph on juncture.

use std::sync::Arc;

use juncture_core::{
    Command, CompiledGraph, END, JunctureError, StateGraph,
    node::{NodeFnCommand, NodeFnUpdate},
};
use juncture_derive::State;
use peer_support::{data, protocol::Job};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Saver, add_scatter_edges, again, run, send};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Jokes {
    subjects: Vec<Vec<String>>,
    #[reducer(append)]
    jokes: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct OneJoke {
    letters: Vec<String>,
    subject: String,
    joke: String,
}

pub fn prepare(size: usize, saver: Option<Saver>) -> Job {
    let scatter = NodeFnCommand(|jokes: &Jokes| {
        let one = |it: &Vec<String>| send("generate_joke", json!({"subjects": [it], "jokes": []}));
        let subjects = jokes.subjects.iter().map(one).collect();
        Box::pin(async move {
            Ok::<_, JunctureError>(Command::update_and_send(JokesUpdate::default(), subjects))
        })
    });
    let mut graph = StateGraph::new();
    graph.add_node_simple("scatter", scatter).expect("the name is unique");
    let call = graph.add_subgraph_explicit(
        "generate_joke",
        Arc::new(one_joke()),
        |jokes: &Jokes| {
            let letters = jokes.subjects.first().cloned().unwrap_or_default();
            OneJoke { letters, ..OneJoke::default() }
        },
        |one: &OneJoke| JokesUpdate { subjects: None, jokes: Some(vec![one.joke.clone()]) },
    );
    call.expect("the name is unique");
    add_scatter_edges(&mut graph, "generate_joke");
    let graph = graph.compile_with_checkpointer(saver).expect("the graph is valid");
    let subjects: Vec<_> = (0..size).map(data::subject).collect();
    let input = move || Jokes { subjects: subjects.clone(), jokes: Vec::new() };
    run(graph, input, |it| data::describe(it.jokes))
}

fn bump_again(one: &OneJoke) -> &str {
    if data::is_bumped(&one.joke) { END } else { "again" }
}

fn one_joke() -> CompiledGraph<OneJoke> {
    let edit = NodeFnUpdate(|one: &OneJoke| {
        let subject = Some(data::edit(&one.letters));
        async move { Ok::<_, JunctureError>(OneJokeUpdate { subject, ..OneJokeUpdate::default() }) }
    });
    let generate = NodeFnUpdate(|one: &OneJoke| {
        let joke = Some(data::joke(&one.subject));
        async move { Ok::<_, JunctureError>(OneJokeUpdate { joke, ..OneJokeUpdate::default() }) }
    });
    let bump = NodeFnUpdate(|one: &OneJoke| {
        let joke = Some(data::bump(&one.joke));
        async move { Ok::<_, JunctureError>(OneJokeUpdate { joke, ..OneJokeUpdate::default() }) }
    });
    let mut graph = StateGraph::new();
    graph.add_node_simple("edit", edit).expect("the name is unique");
    graph.add_node_simple("generate", generate).expect("the name is unique");
    graph.add_node_simple("bump", bump).expect("the name is unique");
    graph.set_entry_point("edit");
    graph.add_edge("edit", "generate");
    graph.add_edge("generate", "bump");
    graph.add_conditional_edges("bump", Arc::new(bump_again), again("bump"));
    graph.compile().expect("the graph is valid")
}
