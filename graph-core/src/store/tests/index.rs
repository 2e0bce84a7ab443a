//! Search by meaning.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;

use super::super::*;
use super::keys;

/// Counts how often a text says tea, cake and rust; other words do not count.
#[derive(Default)]
struct Words {
    calls: AtomicUsize,
}

#[async_trait]
impl Embed for Words {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let count = |text: &String, word| text.matches(word).count() as f32;
        let vector = |text| ["tea", "cake", "rust"].map(|word| count(text, word)).to_vec();
        Ok(texts.iter().map(vector).collect())
    }
}

/// Gives what it was told to, whatever the texts.
struct Told(Mutex<Result<Vec<Vec<f32>>, &'static str>>);

#[async_trait]
impl Embed for Told {
    async fn embed(&self, _: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        self.0.lock().unwrap().clone().map_err(StoreError::embed)
    }
}

fn indexed(fields: &[&str]) -> InMemoryStore {
    let index = IndexConfig::new(Arc::new(Words::default()), 3).fields(fields).unwrap();
    InMemoryStore::new().with_index(index)
}

async fn search(store: &InMemoryStore, query: &str) -> Vec<(String, Option<f32>)> {
    let hits = store.search(Search::everything().query(query)).await.unwrap();
    hits.into_iter().map(|it| (it.key, it.score)).collect()
}

#[tokio::test]
async fn the_most_similar_comes_first() {
    let store = indexed(&["text"]);
    store.put(&["a"], "1", json!({"text": "rust rust"})).await.unwrap();
    store.put(&["a"], "2", json!({"text": "tea and cake"})).await.unwrap();
    store.put(&["b"], "3", json!({"text": "tea tea tea"})).await.unwrap();
    let hits = store.search(Search::everything().query("tea?")).await.unwrap();
    assert_eq!(keys(&hits), ["3", "2", "1"]);
    let close = |score: Option<f32>, cosine: f32| (score.unwrap() - cosine).abs() < 1e-6;
    assert!(close(hits[0].score, 1.0), "length does not count: {:?}", hits[0].score);
    assert!(close(hits[1].score, 0.5_f32.sqrt()));
    assert!(close(hits[2].score, 0.0));

    let second = Search::everything().query("tea").limit(1).offset(1);
    assert_eq!(keys(&store.search(second).await.unwrap()), ["2"]);
    let within = Search::under(&["a"]).unwrap().query("tea").limit(1);
    assert_eq!(keys(&store.search(within).await.unwrap()), ["2"]);
    let filtered = Search::everything().query("tea").filter(Filter::eq("text", "rust rust"));
    assert_eq!(keys(&store.search(filtered).await.unwrap()), ["1"]);
}

#[tokio::test]
async fn without_a_query_nothing_is_scored() {
    let store = indexed(&["text"]);
    store.put(&["a"], "1", json!({"text": "tea"})).await.unwrap();
    assert_eq!(search(&store, "").await, [("1".to_owned(), None)]);
}

#[tokio::test]
async fn the_best_of_several_vectors_counts() {
    let store = indexed(&["title", "parts[*].text"]);
    let parts = json!({"title": "rust", "parts": [{"text": "cake"}, {"text": "tea"}]});
    store.put(&["a"], "many", parts).await.unwrap();
    store.put(&["a"], "one", json!({"title": "tea rust"})).await.unwrap();
    let hits = search(&store, "tea").await;
    assert_eq!(hits[0], ("many".to_owned(), Some(1.0)));
    assert_eq!(hits.len(), 2, "an item is found once");
}

#[tokio::test]
async fn items_without_a_vector_come_last() {
    let store = indexed(&["text"]);
    store.put(&["a"], "1-no-field", json!({"title": "tea"})).await.unwrap();
    let skipped = Put::new(&["a"], "2-skipped", json!({"text": "tea"})).unwrap().without_index();
    store.put_item(skipped).await.unwrap();
    store.put(&["a"], "3-far", json!({"text": "rust"})).await.unwrap();
    store.put(&["a"], "4-near", json!({"text": "tea"})).await.unwrap();
    let hits = search(&store, "tea").await;
    let expect =
        [("4-near", Some(1.0)), ("3-far", Some(0.0)), ("1-no-field", None), ("2-skipped", None)];
    assert_eq!(hits, expect.map(|(key, score)| (key.to_owned(), score)));
}

#[tokio::test]
async fn a_put_may_choose_its_fields() {
    let store = indexed(&["text"]);
    let value = json!({"text": "rust", "note": {"en": "tea"}});
    let put = Put::new(&["a"], "k", value).unwrap();
    store.put_item(put.clone().index(&["note.en"]).unwrap()).await.unwrap();
    assert_eq!(search(&store, "tea").await[0].1, Some(1.0));
    assert_eq!(search(&store, "rust").await[0].1, Some(0.0));

    store.put_item(put.clone()).await.unwrap();
    assert_eq!(search(&store, "rust").await[0].1, Some(1.0), "a new put has new vectors");
    store.put_item(put.without_index()).await.unwrap();
    assert_eq!(search(&store, "rust").await[0].1, None);
}

#[tokio::test]
async fn the_whole_value_is_indexed_by_default() {
    let index = IndexConfig::new(Arc::new(Words::default()), 3);
    let store = InMemoryStore::new().with_index(index);
    store.put(&["a"], "k", json!({"any": ["cake"]})).await.unwrap();
    assert_eq!(search(&store, "cake").await, [("k".to_owned(), Some(1.0))]);
}

#[tokio::test]
async fn a_batch_asks_the_embedder_once() {
    let words = Arc::new(Words::default());
    let store = InMemoryStore::new().with_index(IndexConfig::new(words.clone(), 3));
    let put = |key, text| Op::Put(Put::new(&["a"], key, json!({"text": text})).unwrap());
    let tea = Op::Search(Search::everything().query("tea"));
    let outcomes =
        store.batch(vec![put("1", "cake"), put("2", "tea"), tea, put("3", "tea")]).await.unwrap();
    assert_eq!(words.calls.load(Ordering::Relaxed), 1);
    let Outcome::Items(hits) = &outcomes[2] else { panic!("{outcomes:?}") };
    assert_eq!(keys(hits), ["2", "1"]);

    store.get(&["a"], "1").await.unwrap();
    store.search(Search::everything()).await.unwrap();
    assert_eq!(words.calls.load(Ordering::Relaxed), 1, "only texts are embedded");
}

#[tokio::test]
async fn bad_vectors_are_refused_and_nothing_is_written() {
    for (vectors, message) in [
        (
            Ok(vec![vec![1.0, 2.0]]),
            r#"the vector of "tea" has 2 dimensions and the index 3; set `dims` to what the embedder gives"#,
        ),
        (
            Ok(vec![vec![1.0, f32::NAN, 0.0]]),
            r#"the vector of "tea" has NaN at 1; the embedder must give finite numbers"#,
        ),
        (
            Ok(vec![vec![1.0, 0.0, f32::INFINITY]]),
            r#"the vector of "tea" has inf at 2; the embedder must give finite numbers"#,
        ),
        (Ok(vec![]), "the embedder gave 0 vectors for 1 texts; it must give one for each"),
        (Err("no connection"), "the embedder failed"),
    ] {
        let told = Arc::new(Told(Mutex::new(vectors)));
        let index = IndexConfig::new(told, 3).fields(&["text"]).unwrap();
        let store = InMemoryStore::new().with_index(index);
        let error = store.put(&["a"], "k", json!({"text": "tea"})).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        let error = store.search(Search::everything().query("tea")).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(store.get(&["a"], "k").await.unwrap(), None);
    }
}

#[tokio::test]
async fn odd_but_finite_vectors_have_a_score() {
    let told = Arc::new(Told(Mutex::new(Ok(vec![vec![f32::MAX, f32::MAX]]))));
    let store = InMemoryStore::new().with_index(IndexConfig::new(told.clone(), 2));
    store.put(&["a"], "huge", json!({})).await.unwrap();
    *told.0.lock().unwrap() = Ok(vec![vec![0.0, 0.0]]);
    store.put(&["a"], "zero", json!({})).await.unwrap();
    *told.0.lock().unwrap() = Ok(vec![vec![-1.0, -1.0]]);
    store.put(&["a"], "minus", json!({})).await.unwrap();
    *told.0.lock().unwrap() = Ok(vec![vec![1e-30, 1e-30]]);
    let hits = store.search(Search::everything().query("tiny")).await.unwrap();
    assert_eq!(keys(&hits), ["huge", "zero", "minus"]);
    assert!((hits[0].score.unwrap() - 1.0).abs() < 1e-6);
    assert_eq!(hits[1].score, Some(0.0));
    assert!(similarity(&[0.0], &[-1.0]).is_sign_positive(), "all zeros rank alike");
}

#[tokio::test]
async fn a_query_needs_an_index() {
    let store = InMemoryStore::new();
    let plain = Put::new(&["a"], "k", json!({})).unwrap().index(&["text"]).unwrap();
    store.put_item(plain).await.unwrap();
    let error = store.search(Search::everything().query("tea")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the store has no index to search for "tea"; give it an `IndexConfig`, or search with a filter only"#
    );
    assert!(matches!(
        Put::new(&["a"], "k", json!({})).unwrap().index(&["a..b"]),
        Err(StoreError::BadPath { .. })
    ));
}
