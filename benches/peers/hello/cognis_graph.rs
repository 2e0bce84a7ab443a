//! The program of the main README on cognis-graph.

use cognis_graph::{
    Goto, Graph, GraphState, NodeOut,
    cognis_core::{Runnable, RunnableConfig},
    node_fn,
};

#[derive(GraphState, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reducer(append)]
    drafts: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = node_fn::<Essay, _, _>("write", |essay, _| {
        let number = essay.drafts.len() + 1;
        let draft = format!("Draft {number} on {}", essay.topic);
        let update = EssayUpdate { topic: None, drafts: vec![draft] };
        let goto = if number < 3 { Goto::node("write") } else { Goto::end() };
        async move { Ok(NodeOut { update, goto }) }
    });
    let graph = Graph::new().node("write", write).start_at("write").compile()?;
    let essay = Essay { topic: "Rust".to_owned(), drafts: Vec::new() };
    let essay = graph.invoke(essay, RunnableConfig::new()).await?;
    println!("{:#?}", essay.drafts);
    Ok(())
}
