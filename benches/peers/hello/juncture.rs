//! The program of the main README on juncture.

use std::sync::Arc;

use juncture_core::{END, JunctureError, PathMap, RunnableConfig, StateGraph, node::NodeFnUpdate};
use juncture_derive::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Essay {
    topic: String,
    #[reducer(append)]
    drafts: Vec<String>,
}

fn review(essay: &Essay) -> &str {
    if essay.drafts.len() < 3 { "again" } else { END }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = NodeFnUpdate(|essay: &Essay| {
        let draft = format!("Draft {} on {}", essay.drafts.len() + 1, essay.topic);
        let update = EssayUpdate { topic: None, drafts: Some(vec![draft]) };
        async move { Ok::<_, JunctureError>(update) }
    });
    let mut graph = StateGraph::<Essay>::new();
    graph.add_node_simple("write", write)?;
    graph.set_entry_point("write");
    let paths = PathMap::from(&[("again", "write"), (END, END)][..]);
    graph.add_conditional_edges("write", Arc::new(review), paths);
    let graph = graph.compile()?;
    let essay = Essay { topic: "Rust".to_owned(), drafts: Vec::new() };
    let result = graph.invoke_async(essay, &RunnableConfig::new()).await?;
    println!("{:#?}", result.value.drafts);
    Ok(())
}
