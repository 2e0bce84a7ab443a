//! The fan-out to a subgraph on cognis-graph.

use std::sync::Arc;

use async_trait::async_trait;
use cognis_graph::{
    CompiledGraph, Goto, Graph, GraphState, Node, NodeCtx, NodeOut,
    cognis_core::{Result, Runnable},
    node_fn,
};
use peer_support::{
    data::{self, Shared},
    protocol::Job,
};
use serde_json::json;

use crate::{config, run};

#[derive(GraphState, Clone, Debug, Default)]
pub struct Jokes {
    /// Shared, because the state is copied for every task.
    subjects: Shared<Vec<Vec<String>>>,
    #[reducer(append)]
    jokes: Vec<String>,
}

#[derive(GraphState, Clone, Debug, Default)]
struct OneJoke {
    letters: Vec<String>,
    subject: String,
    joke: String,
}

pub fn prepare(size: usize, store: fn(CompiledGraph<Jokes>) -> CompiledGraph<Jokes>) -> Job {
    let scatter = node_fn::<Jokes, _, _>("scatter", |jokes, _| {
        // Payloads are JSON.
        let subject = |it: &Vec<String>| ("generate_joke".to_owned(), json!(it));
        let goto = Goto::Send(jokes.subjects.0.iter().map(subject).collect());
        async move { Ok(NodeOut::goto_only(goto)) }
    });
    let graph = Graph::new()
        .node("scatter", scatter)
        .node("generate_joke", GenerateJoke { graph: one_joke() })
        .start_at("scatter");
    let graph = graph.compile().expect("the graph is valid");
    let subjects = Shared(Arc::new((0..size).map(data::subject).collect()));
    let input = move || Jokes { subjects: subjects.clone(), jokes: Vec::new() };
    run(store(graph), input, |it| data::describe(it.jokes))
}

/// Runs the subgraph on a payload. The subgraphs of the crate see only the state of the parent.
struct GenerateJoke {
    graph: CompiledGraph<OneJoke>,
}

#[async_trait]
impl Node<Jokes> for GenerateJoke {
    async fn execute(&self, _: &Jokes, context: &NodeCtx<'_>) -> Result<NodeOut<Jokes>> {
        let letters = context.payload().and_then(|it| serde_json::from_value(it.clone()).ok());
        let input = OneJoke { letters: letters.unwrap_or_default(), ..OneJoke::default() };
        let jokes = vec![self.graph.invoke(input, config()).await?.joke];
        Ok(NodeOut { update: JokesUpdate { subjects: None, jokes }, goto: Goto::halt() })
    }
}

fn one_joke() -> CompiledGraph<OneJoke> {
    let edit = node_fn::<OneJoke, _, _>("edit", |it, _| {
        let subject = Some(data::edit(&it.letters));
        let update = OneJokeUpdate { subject, ..OneJokeUpdate::default() };
        async move { Ok(NodeOut { update, goto: Goto::node("generate") }) }
    });
    let generate = node_fn::<OneJoke, _, _>("generate", |it, _| {
        let joke = Some(data::joke(&it.subject));
        let update = OneJokeUpdate { joke, ..OneJokeUpdate::default() };
        async move { Ok(NodeOut { update, goto: Goto::node("bump") }) }
    });
    let bump = node_fn::<OneJoke, _, _>("bump", |it, _| {
        let joke = data::bump(&it.joke);
        let goto = if data::is_bumped(&joke) { Goto::end() } else { Goto::node("bump") };
        let update = OneJokeUpdate { joke: Some(joke), ..OneJokeUpdate::default() };
        async move { Ok(NodeOut { update, goto }) }
    });
    Graph::new()
        .node("edit", edit)
        .node("generate", generate)
        .node("bump", bump)
        .start_at("edit")
        .compile()
        .expect("the graph is valid")
}
