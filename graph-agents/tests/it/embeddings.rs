//! Tests of the semantic search of a store, with the scripted embedding model.

use graph_agents::{Agent, AiMessage, Message, ScriptedModel, ToolCall, tool};
use graph_core::{
    NodeError,
    store::{InMemoryStore, IndexConfig, Search, Store},
};
use llm::{Embedder, ScriptedEmbeddings};
use serde_json::json;

const QUESTION: &str = "Where is the old river?";

async fn notes() -> InMemoryStore {
    let embedder = Embedder::new(ScriptedEmbeddings::words(256));
    let index = IndexConfig::new(embedder, 256).fields(&["text"]).unwrap();
    let store = InMemoryStore::new().with_index(index);
    for (user, key, text) in [
        ("ann", "tax", "Tax returns are due in May."),
        ("ann", "bridge", "A bridge leads over the river."),
        ("ann", "river", "The old river floods the valley."),
        ("bob", "swim", "Bob swims in the old river."),
    ] {
        store.put(&[user, "notes"], key, json!({ "text": text })).await.unwrap();
    }
    store
}

/// Finds the note that is closest to a question.
#[tool]
async fn search_notes(question: String, store: &dyn Store) -> Result<String, NodeError> {
    let search = Search::under(&["ann", "notes"])?.query(question).limit(1);
    let found = store.search(search).await?;
    Ok(found.iter().map(|it| it.key.as_str()).collect())
}

#[tokio::test]
async fn tool_of_an_agent_searches_the_store() {
    let call = ToolCall::new("search_notes", json!({"question": QUESTION}), "call-1");
    let model =
        ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("In the valley.")]);
    let agent = Agent::new(model).tools([search_notes()]).store(notes().await).compile().unwrap();
    let outcome = agent.run(QUESTION).await.unwrap();
    let results: Vec<_> = outcome.messages.iter().filter_map(Message::as_tool).collect();
    assert_eq!(results[0].content.text(), "river");
    assert_eq!(outcome.text(), "In the valley.");
}
