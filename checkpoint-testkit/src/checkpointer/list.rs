//! list: returns the checkpoints of one namespace that match the query, newest first.

use graph_core::checkpoint::{CheckpointId, HistoryQuery, Source};
use serde_json::{Value, json};

use super::support::*;

checks! {
    "list: the newest comes first" => newest_first(),
    "list: a namespace without checkpoints has no history" => empty(),
    "list: every checkpoint is complete" => complete(),
    "list: every checkpoint has its records" => with_records(),
    "list: a limit of n returns the n newest" => limit(2, 2),
    "list: a limit of 0 returns nothing" => limit(0, 0),
    "list: a limit beyond the history returns everything" => limit(100, 5),
    "list: `before` excludes the checkpoint itself and all newer ones" => before(),
    "list: `before` with the oldest id returns nothing" => before_oldest(),
    "list: `before` with an unknown id filters by age" => before_unknown(),
    "list: `before` and `limit` return the newest of the older ones" => before_and_limit(),
    "list: paging returns every checkpoint once" => pages(),
    "list: the source filters checkpoints" => by_source(),
    "list: metadata filters checkpoints" => finds(json!({"user": "ada"}), &[0, 2]),
    "list: all metadata entries must match" => finds(json!({"user": "ada", "n": 2}), &[2]),
    "list: unknown metadata values find nothing" => finds(json!({"user": "eve"}), &[]),
    "list: unknown metadata keys find nothing" => finds(json!({"unknown": "ada"}), &[]),
    "list: the metadata value null is not the same as an absent key" => finds(json!({"maybe": null}), &[1]),
    "list: a number does not match its text" => finds(json!({"n": "2"}), &[]),
    "list: the metadata value false matches" => finds(json!({"ok": false}), &[1]),
    "list: a nested value must match completely" => finds(json!({"deep": {"a": [1, 2]}}), &[2]),
    "list: a part of a nested value does not match" => finds(json!({"deep": {}}), &[]),
    "list: a key with dots is a key, not a path" => finds(json!({"deep.a": "dots"}), &[0]),
    "list: an entry with quotes matches" => finds(json!({"it's \"x\"": "it's \"y\" %_"}), &[0]),
    "list: empty metadata matches everything" => finds(json!({}), &[0, 1, 2]),
    "list: the limit counts only matches" => limit_counts_matches(),
    "list: all filters combine" => all_filters(),
    "list: other threads are excluded" => excludes(first().thread("other")),
    "list: other namespaces are excluded" => excludes(first().namespace("child:1")),
}

async fn newest_first(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 5).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))
}

async fn empty(saver: Saver) -> CheckResult {
    chain(&saver, 1).await?;
    let elsewhere = [HistoryQuery::new("other", ROOT), HistoryQuery::new(THREAD, "child:1")];
    for query in elsewhere {
        expect_eq("the checkpoints", ids(&saver, &query).await?, vec![])?;
    }
    Ok(())
}

async fn complete(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 3).await?;
    for (checkpoint, idx) in saver.list(&history()).await?.into_iter().zip([2, 1, 0]) {
        let one = read(&saver, chain[idx]).await?;
        expect_eq("the key", checkpoint.key, one.key)?;
        expect_eq("the header", checkpoint.header, one.header)?;
        expect_eq("the frontier", checkpoint.frontier, one.frontier)?;
        expect_eq("the values", Value::Object(checkpoint.values), chain_values(idx))?;
    }
    Ok(())
}

async fn with_records(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let records = vec![record("b", done(1)), record("a", done(2))];
    saver.record(&key(ids[1]), records.clone()).await?;
    let found: Vec<_> = saver.list(&history()).await?.into_iter().map(|it| it.records).collect();
    expect_eq("the records", found, vec![vec![], records, vec![]])
}

async fn limit(saver: Saver, limit: usize, expected: usize) -> CheckResult {
    let chain = chain(&saver, 5).await?;
    let found = ids(&saver, &history().limit(limit)).await?;
    expect_eq("the checkpoints", found, reversed(&chain)[..expected].to_vec())
}

async fn before(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 5).await?;
    expect_eq(
        "the checkpoints",
        ids(&saver, &history().before(chain[3])).await?,
        reversed(&chain[..3]),
    )
}

async fn before_oldest(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 2).await?;
    expect_eq("the checkpoints", ids(&saver, &history().before(chain[0])).await?, vec![])
}

async fn before_unknown(saver: Saver) -> CheckResult {
    let first = first().put(&saver).await?;
    let between = CheckpointId::next();
    after(first).put(&saver).await?;
    expect_eq("the checkpoints", ids(&saver, &history().before(between)).await?, vec![first])
}

async fn before_and_limit(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 5).await?;
    let found = ids(&saver, &history().before(chain[4]).limit(2)).await?;
    expect_eq("the checkpoints", found, vec![chain[3], chain[2]])
}

async fn pages(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 7).await?;
    let mut found = ids(&saver, &history().limit(3)).await?;
    // The loop is bounded, so that it ends even if a saver ignores `before`.
    for _ in 0..chain.len() {
        let Some(last) = found.last().copied() else { break };
        found.extend(ids(&saver, &history().before(last).limit(3)).await?);
    }
    expect_eq("the checkpoints", found, reversed(&chain))
}

async fn by_source(saver: Saver) -> CheckResult {
    let sources = [Source::Input, Source::Loop, Source::Update, Source::Fork];
    let mut chain = vec![first().source(sources[0]).put(&saver).await?];
    for source in &sources[1..] {
        chain.push(after(chain[chain.len() - 1]).source(*source).put(&saver).await?);
    }
    for (id, source) in chain.into_iter().zip(sources) {
        let query = HistoryQuery { source: Some(source), ..history() };
        expect_eq(source.as_str(), ids(&saver, &query).await?, vec![id])?;
    }
    Ok(())
}

/// Stores three checkpoints with metadata and checks which of them the query finds.
async fn finds(saver: Saver, metadata: Value, expected: &[usize]) -> CheckResult {
    let all = [
        json!({"user": "ada", "n": 0, "deep.a": "dots", "it's \"x\"": "it's \"y\" %_"}),
        json!({"user": "bob", "n": 1, "maybe": null, "ok": false}),
        json!({"user": "ada", "n": 2, "deep": {"a": [1, 2]}, "ok": true}),
    ];
    let mut chain = Vec::new();
    for metadata in all {
        let draft = chain.last().map_or_else(first, |head| after(*head));
        chain.push(draft.metadata(metadata).put(&saver).await?);
    }
    let query = HistoryQuery { metadata: object(metadata), ..history() };
    let expected = expected.iter().rev().map(|idx| chain[*idx]).collect();
    expect_eq("the checkpoints", ids(&saver, &query).await?, expected)
}

/// Stores ten checkpoints. Those with an even index have the source `Update` and the metadata `"even": true`.
async fn ten(saver: &Saver) -> CheckResult<Vec<CheckpointId>> {
    let mut chain: Vec<CheckpointId> = Vec::new();
    for n in 0..10 {
        let mut draft = chain.last().map_or_else(first, |head| after(*head));
        if n % 2 == 0 {
            draft = draft.source(Source::Update).metadata(json!({"even": true, "third": n % 3}));
        }
        chain.push(draft.put(saver).await?);
    }
    Ok(chain)
}

async fn limit_counts_matches(saver: Saver) -> CheckResult {
    let chain = ten(&saver).await?;
    let query = HistoryQuery { metadata: object(json!({"even": true})), ..history() };
    expect_eq("the checkpoints", ids(&saver, &query.limit(2)).await?, vec![chain[8], chain[6]])
}

async fn all_filters(saver: Saver) -> CheckResult {
    let chain = ten(&saver).await?;
    let query = HistoryQuery {
        source: Some(Source::Update),
        metadata: object(json!({"third": 0})),
        ..history().before(chain[6]).limit(3)
    };
    expect_eq("the checkpoints", ids(&saver, &query).await?, vec![chain[0]])
}

async fn excludes(saver: Saver, elsewhere: Draft) -> CheckResult {
    let here = chain(&saver, 2).await?;
    let key = elsewhere.0.key.clone();
    let there = chain_like(&saver, &elsewhere, 3).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&here))?;
    let query = HistoryQuery::new(key.thread, key.namespace);
    expect_eq("the other's checkpoints", ids(&saver, &query).await?, reversed(&there))
}
