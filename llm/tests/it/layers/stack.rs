//! Tests of combinations of layers.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use graph_core::MemoryCache;
use llm::{
    Backoff, Budget, ErrorKind, Llm, ModelId, Money, RateLimit, RateLimiter, RecordMode, Recording,
    Request,
};

use super::{answer, error, fake, id};

/// A function that adds a layer to a model.
type Layer = fn(Llm, &Path) -> Llm;

const LAYERS: [(&str, Layer); 5] = [
    ("retry", |llm, _| llm.retry(Backoff::default())),
    ("rate_limit", |llm, _| {
        llm.rate_limit(&RateLimiter::new(
            RateLimit::new(2).requests_per_minute(9).tokens_per_minute(50_000),
        ))
    }),
    ("budget", |llm, _| llm.budget(&Budget::of_both(50_000, Money::from_dollars(1.0)))),
    ("cache", |llm, _| llm.cache(Arc::new(MemoryCache::new()))),
    ("record", |llm, folder| {
        let path = folder.join("calls.jsonl");
        llm.record(&Recording::open(path, RecordMode::Record).unwrap())
    }),
];

/// Returns all permutations of these numbers.
fn orders(numbers: &[usize]) -> Vec<Vec<usize>> {
    if numbers.is_empty() {
        return vec![Vec::new()];
    }
    let first = |nth: usize| {
        let mut rest = numbers.to_vec();
        let first = rest.remove(nth);
        orders(&rest).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (0..numbers.len()).flat_map(first).collect()
}

#[tokio::test(start_paused = true)]
async fn layers_work_in_any_order() {
    let orders = orders(&[0, 1, 2, 3, 4]);
    assert_eq!(orders.len(), 120);
    for order in orders {
        let names: Vec<_> = order.iter().map(|it| LAYERS[*it].0).collect();
        let folder = tempfile::tempdir().unwrap();
        let (model, calls) = fake(|number, prompt| async move {
            match number {
                0 => Err(error(ErrorKind::Overloaded)),
                _ => Ok(answer(format!("{prompt} To the Rhine."))),
            }
        });
        let llm = order.iter().fold(model, |llm, it| LAYERS[*it].1(llm, folder.path()));
        assert_eq!(
            llm.generate("Where to?").await,
            Ok(answer("Where to? To the Rhine.")),
            "{names:?}"
        );
        assert_eq!(calls.load(Ordering::Relaxed), 2, "{names:?}");
        let again = llm.generate("Where to?").await.unwrap();
        assert_eq!(again.text(), "Where to? To the Rhine.", "{names:?}");
        assert_eq!(calls.load(Ordering::Relaxed), 2, "the cache did not answer: {names:?}");
        assert_eq!(llm::Model::id(&llm), id(), "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn replay_repeats_spending_and_failures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let run = async |mode, model: Llm| {
        let recording = Recording::open(&path, mode).unwrap();
        let budget = Budget::of_tokens(6_000);
        let llm = model.record(&recording).retry(Backoff::default()).budget(&budget);
        let mut texts = Vec::new();
        for number in 0..3 {
            let request = Request::new(number.to_string()).max_tokens(3_000);
            texts.push(llm.generate(request).await.map(|it| it.text()).map_err(|it| it.kind));
        }
        (texts, budget.spent())
    };
    let (model, _) = fake(|number, _| async move {
        if number % 2 == 0 {
            Err(error(ErrorKind::Truncated))
        } else {
            Ok(answer(number.to_string()))
        }
    });
    let recorded = run(RecordMode::Record, model).await;
    let expect = ["1".to_owned(), "3".to_owned(), "5".to_owned()].map(Ok);
    assert_eq!(recorded.0, expect);
    let unused = fake(|_, _| async { panic!("a replay makes no calls") }).0;
    assert_eq!(run(RecordMode::Replay, unused).await, recorded);
    let other = Recording::open(&path, RecordMode::Replay).unwrap();
    let other = other.model(ModelId::new("openai", "gpt")).generate("0").await.unwrap_err();
    assert_eq!(other.kind, ErrorKind::NotRecorded);
}
