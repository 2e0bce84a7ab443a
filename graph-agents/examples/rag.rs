//! Answers questions from notes that a store finds by semantic search. Runs offline with scripted models.
#![expect(clippy::print_stdout, reason = "an example that prints its conversation")]

use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, pretty, tool};
use graph_core::{
    NodeError,
    store::{InMemoryStore, IndexConfig, Search, Store},
};
use llm::{Embedder, ScriptedEmbeddings};
use serde_json::json;

const NOTES: [&str; 3] = [
    "The office in Bern opens at eight on weekdays.",
    "Travel costs are paid within two weeks after the report.",
    "The cafeteria serves soup on Mondays.",
];

/// Finds the notes that are closest to a question.
#[tool]
async fn search_notes(question: String, store: &dyn Store) -> Result<Vec<String>, NodeError> {
    let search = Search::under(&["notes"])?.query(question).limit(1);
    let found = store.search(search).await?;
    Ok(found.iter().map(|it| it.value["text"].to_string()).collect())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // For a real provider: `Provider::new("openai")?.build_embedder()?`, with 1536 dimensions.
    let embedder = Embedder::new(ScriptedEmbeddings::words(256));
    let index = IndexConfig::new(embedder, 256).fields(&["text"])?;
    let store = InMemoryStore::new().with_index(index);
    for (key, text) in NOTES.iter().enumerate() {
        store.put(&["notes"], &key.to_string(), json!({ "text": text })).await?;
    }

    let question = json!({"question": "When are travel costs paid?"});
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(ToolCall::new("search_notes", question, "call-1")),
        AiMessage::new("Within two weeks after the report."),
    ]);
    let agent = Agent::new(model).tools([search_notes()]).store(store).compile()?;
    let answer = agent.run("When do I get my travel costs back?").await?;
    print!("{}", pretty(&answer.messages));
    assert!(answer.messages[2].text().contains("within two weeks"), "{answer:?}");
    Ok(())
}
