//! Semantic search with an embedder of the crate `llm` in the stores on SQLite and PostgreSQL.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::sync::{Arc, Mutex};

use graph_core::store::{IndexConfig, Search, Store};
use graph_store::{Postgres, PostgresStore, SqliteStore};
use graph_tests::postgres;
use llm::{Embedder, ScriptedEmbeddings};
use serde_json::json;

const WORDS: [&str; 3] = ["old", "river", "tax"];
const QUESTION: &str = "Where is the old river?";

/// The texts that were embedded.
type Texts = Arc<Mutex<Vec<String>>>;

/// Returns an index whose vectors count some words.
fn index(embedded: &Texts) -> IndexConfig {
    let embedded = embedded.clone();
    let model = ScriptedEmbeddings::new(move |text| {
        embedded.lock().unwrap().push(text.to_owned());
        WORDS.map(|it| text.to_lowercase().matches(it).count() as f32).to_vec()
    });
    IndexConfig::new(Embedder::new(model), WORDS.len()).fields(&["text"]).unwrap()
}

async fn put(store: &dyn Store, user: &str, key: &str, text: &str) {
    store.put(&[user, "notes"], key, json!({ "text": text })).await.unwrap();
}

/// Returns the keys of Ann's notes, sorted by similarity to the question, most similar first.
async fn search(store: &dyn Store) -> Vec<String> {
    let search = Search::under(&["ann"]).unwrap().query(QUESTION);
    let found = store.search(search).await.unwrap();
    let scores: Vec<_> = found.iter().map(|it| it.score.unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    found.into_iter().map(|it| it.key).collect()
}

/// Checks the search in two stores on one database, each with its own embedder. `embedded` contains the texts that the
/// reader has embedded.
async fn check(writer: &dyn Store, reader: &dyn Store, embedded: &Texts) {
    put(writer, "ann", "tax", "The river tax is due in May.").await;
    put(writer, "ann", "bridge", "A bridge leads over the river.").await;
    put(writer, "ann", "river", "The old river floods the valley.").await;
    put(writer, "bob", "swim", "Bob swims in the old river.").await;
    assert_eq!(search(reader).await, ["river", "bridge", "tax"]);
    assert_eq!(*embedded.lock().unwrap(), [QUESTION], "the vectors of the notes are stored");

    put(writer, "ann", "tax", QUESTION).await;
    writer.delete(&["ann", "notes"], "river").await.unwrap();
    assert_eq!(search(reader).await, ["tax", "bridge"]);
}

#[tokio::test]
async fn embedder_ranks_the_items_of_a_sqlite_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    let [written, read]: [Texts; 2] = Default::default();
    let open = |texts: &Texts| SqliteStore::open(&path).unwrap().with_index(index(texts));
    check(&open(&written), &open(&read), &read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedder_ranks_the_items_of_a_postgres_store() {
    let Some(url) = postgres::fresh_database() else { return };
    let database = Postgres::connect(&url).await.unwrap();
    let [written, read]: [Texts; 2] = Default::default();
    let open = |texts: &Texts| PostgresStore::new(&database).with_index(index(texts));
    check(&open(&written), &open(&read), &read).await;
}
