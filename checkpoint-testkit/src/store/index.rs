//! Checks of searches with a query.

use graph_core::store::{Filter, IndexConfig, Put, Search, StoreError};
use serde_json::json;

use super::support::*;

checks! {
    "query: the most similar item comes first" => indexed, similar_first(),
    "query: an empty query produces no scores" => indexed, empty_query(),
    "query: the best of several vectors determines the score" =>
        |settings, embedder| indexed_by(settings, embedder, &["title", "parts[*].text"]),
        best_of_several(),
    "query: items without a vector come last" => indexed, without_vector(),
    "query: items with equal scores are sorted by namespace and key" => indexed, equal_scores(),
    "query: a put can select the indexed fields, and replaces old vectors" => indexed, selected_fields(),
    "query: the whole value is indexed by default" =>
        |settings, embedder| settings.with_index(IndexConfig::new(embedder, 3)),
        whole_value(),
    "query: invalid vectors are rejected and nothing is written" => indexed, invalid_vectors(),
    "query: extreme but finite vectors have a score" => indexed, extreme_vectors(),
    "query: a store without an index rejects queries" => plain, no_index(),
}

async fn search(fixture: &Fixture, query: &str) -> CheckResult<Vec<(String, Option<f32>)>> {
    let hits = fixture.store.search(Search::everything().query(query)).await?;
    Ok(hits.into_iter().map(|it| (it.key, it.score)).collect())
}

fn hits(hits: &[(&str, Option<f32>)]) -> Vec<(String, Option<f32>)> {
    hits.iter().map(|(key, score)| ((*key).to_owned(), *score)).collect()
}

async fn similar_first(fixture: Fixture) -> CheckResult {
    fixture.store.put(&["a"], "1", json!({"text": "rust rust"})).await?;
    fixture.store.put(&["a"], "2", json!({"text": "tea and cake"})).await?;
    fixture.store.put(&["b"], "3", json!({"text": "tea tea tea"})).await?;
    let found = search(&fixture, "tea?").await?;
    for (hit, (key, cosine)) in found.iter().zip([("3", 1.0), ("2", 0.5_f32.sqrt()), ("1", 0.0)]) {
        assert_eq!(hit.0, key, "{found:?}");
        let score = hit.1.ok_or("a hit of a query must have a score")?;
        assert!(
            (score - cosine).abs() < 1e-6,
            "the score must not depend on text length: {found:?}"
        );
    }
    let query = || Search::everything().query("tea");
    assert_eq!(fixture.found_keys(query().limit(1).offset(1)).await?, "2");
    assert_eq!(fixture.found_keys(Search::under(&["a"])?.query("tea").limit(1)).await?, "2");
    assert_eq!(fixture.found_keys(query().filter(Filter::eq("text", "rust rust"))).await?, "1");
    Ok(())
}

async fn empty_query(fixture: Fixture) -> CheckResult {
    fixture.store.put(&["a"], "1", json!({"text": "tea"})).await?;
    assert_eq!(search(&fixture, "").await?, hits(&[("1", None)]));
    Ok(())
}

async fn best_of_several(fixture: Fixture) -> CheckResult {
    let parts = json!({"title": "rust", "parts": [{"text": "cake"}, {"text": "tea"}]});
    fixture.store.put(&["a"], "many", parts).await?;
    fixture.store.put(&["a"], "one", json!({"title": "tea rust"})).await?;
    let found = search(&fixture, "tea").await?;
    assert_eq!(found[0], ("many".to_owned(), Some(1.0)));
    assert_eq!(found.len(), 2, "an item must be found only once");
    Ok(())
}

async fn without_vector(fixture: Fixture) -> CheckResult {
    fixture.store.put(&["a"], "1-no-field", json!({"title": "tea"})).await?;
    let skipped = Put::new(&["a"], "2-skipped", json!({"text": "tea"}))?.without_index();
    fixture.store.put_item(skipped).await?;
    fixture.store.put(&["a"], "3-far", json!({"text": "rust"})).await?;
    fixture.store.put(&["a"], "4-near", json!({"text": "tea"})).await?;
    let expect =
        [("4-near", Some(1.0)), ("3-far", Some(0.0)), ("1-no-field", None), ("2-skipped", None)];
    assert_eq!(search(&fixture, "tea").await?, hits(&expect));
    Ok(())
}

async fn equal_scores(fixture: Fixture) -> CheckResult {
    for n in (100..500).rev() {
        let text = if n % 100 == 7 { "tea" } else { "rust" };
        fixture.store.put(&["a"], &n.to_string(), json!({"text": text})).await?;
    }
    let query = |offset| Search::everything().query("tea").limit(6).offset(offset);
    assert_eq!(fixture.found_keys(query(0)).await?, "107 207 307 407 100 101");
    assert_eq!(fixture.found_keys(query(396)).await?, "496 497 498 499");
    Ok(())
}

async fn selected_fields(fixture: Fixture) -> CheckResult {
    let put = Put::new(&["a"], "k", json!({"text": "rust", "note": {"en": "tea"}}))?;
    fixture.store.put_item(put.clone().index(&["note.en"])?).await?;
    assert_eq!(search(&fixture, "tea").await?[0].1, Some(1.0));
    assert_eq!(search(&fixture, "rust").await?[0].1, Some(0.0));
    fixture.store.put_item(put.clone()).await?;
    assert_eq!(search(&fixture, "rust").await?[0].1, Some(1.0));
    fixture.store.put_item(put.without_index()).await?;
    assert_eq!(search(&fixture, "rust").await?[0].1, None);
    Ok(())
}

async fn whole_value(fixture: Fixture) -> CheckResult {
    fixture.store.put(&["a"], "k", json!({"any": ["cake"]})).await?;
    assert_eq!(search(&fixture, "cake").await?, hits(&[("k", Some(1.0))]));
    Ok(())
}

async fn invalid_vectors(fixture: Fixture) -> CheckResult {
    for (vectors, message) in [
        (
            Ok(vec![vec![1.0, 2.0]]),
            r#"the vector for "tea" has 2 dimensions, but the index has 3; set `dims` to the embedder's dimensions"#,
        ),
        (
            Ok(vec![vec![1.0, f32::NAN, 0.0]]),
            r#"the vector for "tea" contains NaN at position 1; the embedder must return finite numbers"#,
        ),
        (
            Ok(vec![vec![1.0, 0.0, f32::INFINITY]]),
            r#"the vector for "tea" contains inf at position 2; the embedder must return finite numbers"#,
        ),
        (
            Ok(vec![]),
            "the number of vectors that the embedder returned (0) differs from the number of texts (1); \
             the embedder must return one vector per text",
        ),
        (Err("no connection"), "the embedder failed"),
    ] {
        fixture.embedder.set_result(vectors);
        let put = fixture.put_k(json!({"text": "tea"})).await;
        assert_eq!(put.map_err(|it| it.to_string()), Err(message.to_owned()));
        let search = fixture.store.search(Search::everything().query("tea")).await;
        assert_eq!(search.map_err(|it| it.to_string()), Err(message.to_owned()));
        assert!(!fixture.has("k").await?);
    }
    Ok(())
}

async fn extreme_vectors(fixture: Fixture) -> CheckResult {
    for (key, vector) in [("huge", [f32::MAX; 3]), ("zero", [0.0; 3]), ("minus", [-1.0; 3])] {
        fixture.embedder.set_result(Ok(vec![vector.to_vec()]));
        fixture.store.put(&["a"], key, json!({"text": "any"})).await?;
    }
    fixture.embedder.set_result(Ok(vec![vec![1e-30; 3]]));
    let found = search(&fixture, "tiny").await?;
    let order: Vec<_> = found.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(order, ["huge", "zero", "minus"]);
    assert!(found[0].1.is_some_and(|it| (it - 1.0).abs() < 1e-6), "{found:?}");
    assert_eq!(found[1].1, Some(0.0));
    Ok(())
}

async fn no_index(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(Put::new(&["a"], "k", json!({}))?.index(&["text"])?).await?;
    let result = fixture.store.search(Search::everything().query("tea")).await;
    assert!(matches!(result, Err(StoreError::NoIndex { .. })), "{result:?}");
    Ok(())
}
