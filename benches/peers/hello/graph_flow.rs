//! The program of the main README on graph-flow.

use std::sync::Arc;

use async_trait::async_trait;
use graph_flow::{Context, GraphBuilder, NextAction, Session, Task, TaskResult};

fn drafts(context: &Context) -> Vec<String> {
    context.get("drafts").unwrap_or_default()
}

struct Write;

#[async_trait]
impl Task for Write {
    fn id(&self) -> &str {
        "write"
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        let (topic, mut drafts) = (context.get::<String>("topic"), drafts(&context));
        drafts.push(format!("Draft {} on {}", drafts.len() + 1, topic.unwrap_or_default()));
        let again = drafts.len() < 3;
        context.set("drafts", drafts)?;
        let next = if again { NextAction::ContinueAndExecute } else { NextAction::End };
        Ok(TaskResult::new(None, next))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph =
        GraphBuilder::new("essay").add_task(Arc::new(Write)).add_edge("write", "write").build()?;
    let mut session = Session::new_from_task("session".to_owned(), "write");
    session.context.set("topic", "Rust")?;
    graph.execute_session(&mut session).await?;
    println!("{:#?}", drafts(&session.context));
    Ok(())
}
