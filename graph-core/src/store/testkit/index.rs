//! Search by meaning.

use serde_json::json;

use super::support::*;
use crate::store::{Filter, IndexConfig, Put, Search, StoreError};

checks! {
    "query: the most similar comes first" => indexed, similar_first(),
    "query: an empty one scores nothing" => indexed, empty_query(),
    "query: the best of several vectors counts" =>
        |settings, words| indexed_by(settings, words, &["title", "parts[*].text"]),
        best_of_several(),
    "query: items without a vector come last" => indexed, without_vector(),
    "query: equal scores keep the order of namespace and key" => indexed, equal_scores(),
    "query: a put may choose its fields, and a new put has new vectors" => indexed, chosen_fields(),
    "query: the whole value is indexed by default" =>
        |settings, words| settings.with_index(IndexConfig::new(words, 3)),
        whole_value(),
    "query: bad vectors are refused and nothing is written" => indexed, bad_vectors(),
    "query: odd but finite vectors have a score" => indexed, odd_vectors(),
    "query: a store without an index refuses it" => plain, no_index(),
}

async fn search(bench: &Bench, query: &str) -> Outcome<Vec<(String, Option<f32>)>> {
    let hits = bench.store.search(Search::everything().query(query)).await?;
    Ok(hits.into_iter().map(|it| (it.key, it.score)).collect())
}

fn hits(hits: &[(&str, Option<f32>)]) -> Vec<(String, Option<f32>)> {
    hits.iter().map(|(key, score)| ((*key).to_owned(), *score)).collect()
}

async fn similar_first(bench: Bench) -> Outcome {
    bench.store.put(&["a"], "1", json!({"text": "rust rust"})).await?;
    bench.store.put(&["a"], "2", json!({"text": "tea and cake"})).await?;
    bench.store.put(&["b"], "3", json!({"text": "tea tea tea"})).await?;
    let found = search(&bench, "tea?").await?;
    for (hit, (key, cosine)) in found.iter().zip([("3", 1.0), ("2", 0.5_f32.sqrt()), ("1", 0.0)]) {
        assert_eq!(hit.0, key, "{found:?}");
        let score = hit.1.ok_or("a hit of a query has a score")?;
        assert!((score - cosine).abs() < 1e-6, "the length of a text does not count: {found:?}");
    }
    let query = || Search::everything().query("tea");
    assert_eq!(bench.found(query().limit(1).offset(1)).await?, "2");
    assert_eq!(bench.found(Search::under(&["a"])?.query("tea").limit(1)).await?, "2");
    assert_eq!(bench.found(query().filter(Filter::eq("text", "rust rust"))).await?, "1");
    Ok(())
}

async fn empty_query(bench: Bench) -> Outcome {
    bench.store.put(&["a"], "1", json!({"text": "tea"})).await?;
    assert_eq!(search(&bench, "").await?, hits(&[("1", None)]));
    Ok(())
}

async fn best_of_several(bench: Bench) -> Outcome {
    let parts = json!({"title": "rust", "parts": [{"text": "cake"}, {"text": "tea"}]});
    bench.store.put(&["a"], "many", parts).await?;
    bench.store.put(&["a"], "one", json!({"title": "tea rust"})).await?;
    let found = search(&bench, "tea").await?;
    assert_eq!(found[0], ("many".to_owned(), Some(1.0)));
    assert_eq!(found.len(), 2, "an item is found once");
    Ok(())
}

async fn without_vector(bench: Bench) -> Outcome {
    bench.store.put(&["a"], "1-no-field", json!({"title": "tea"})).await?;
    let skipped = Put::new(&["a"], "2-skipped", json!({"text": "tea"}))?.without_index();
    bench.store.put_item(skipped).await?;
    bench.store.put(&["a"], "3-far", json!({"text": "rust"})).await?;
    bench.store.put(&["a"], "4-near", json!({"text": "tea"})).await?;
    let expect =
        [("4-near", Some(1.0)), ("3-far", Some(0.0)), ("1-no-field", None), ("2-skipped", None)];
    assert_eq!(search(&bench, "tea").await?, hits(&expect));
    Ok(())
}

async fn equal_scores(bench: Bench) -> Outcome {
    for n in (100..500).rev() {
        let text = if n % 100 == 7 { "tea" } else { "rust" };
        bench.store.put(&["a"], &n.to_string(), json!({"text": text})).await?;
    }
    let query = |offset| Search::everything().query("tea").limit(6).offset(offset);
    assert_eq!(bench.found(query(0)).await?, "107 207 307 407 100 101");
    assert_eq!(bench.found(query(396)).await?, "496 497 498 499");
    Ok(())
}

async fn chosen_fields(bench: Bench) -> Outcome {
    let put = Put::new(&["a"], "k", json!({"text": "rust", "note": {"en": "tea"}}))?;
    bench.store.put_item(put.clone().index(&["note.en"])?).await?;
    assert_eq!(search(&bench, "tea").await?[0].1, Some(1.0));
    assert_eq!(search(&bench, "rust").await?[0].1, Some(0.0));
    bench.store.put_item(put.clone()).await?;
    assert_eq!(search(&bench, "rust").await?[0].1, Some(1.0));
    bench.store.put_item(put.without_index()).await?;
    assert_eq!(search(&bench, "rust").await?[0].1, None);
    Ok(())
}

async fn whole_value(bench: Bench) -> Outcome {
    bench.store.put(&["a"], "k", json!({"any": ["cake"]})).await?;
    assert_eq!(search(&bench, "cake").await?, hits(&[("k", Some(1.0))]));
    Ok(())
}

async fn bad_vectors(bench: Bench) -> Outcome {
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
        bench.words.tell(vectors);
        let put = bench.put_k(json!({"text": "tea"})).await;
        assert_eq!(put.map_err(|it| it.to_string()), Err(message.to_owned()));
        let search = bench.store.search(Search::everything().query("tea")).await;
        assert_eq!(search.map_err(|it| it.to_string()), Err(message.to_owned()));
        assert!(!bench.has("k").await?);
    }
    Ok(())
}

async fn odd_vectors(bench: Bench) -> Outcome {
    for (key, vector) in [("huge", [f32::MAX; 3]), ("zero", [0.0; 3]), ("minus", [-1.0; 3])] {
        bench.words.tell(Ok(vec![vector.to_vec()]));
        bench.store.put(&["a"], key, json!({"text": "any"})).await?;
    }
    bench.words.tell(Ok(vec![vec![1e-30; 3]]));
    let found = search(&bench, "tiny").await?;
    let order: Vec<_> = found.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(order, ["huge", "zero", "minus"]);
    assert!(found[0].1.is_some_and(|it| (it - 1.0).abs() < 1e-6), "{found:?}");
    assert_eq!(found[1].1, Some(0.0));
    Ok(())
}

async fn no_index(bench: Bench) -> Outcome {
    bench.store.put_item(Put::new(&["a"], "k", json!({}))?.index(&["text"])?).await?;
    let refused = bench.store.search(Search::everything().query("tea")).await;
    assert!(matches!(refused, Err(StoreError::NoIndex { .. })), "{refused:?}");
    Ok(())
}
