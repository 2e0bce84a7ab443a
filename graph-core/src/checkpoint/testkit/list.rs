//! Listing: the checkpoints of one namespace, newest first, as the query wants them.

use serde_json::{Value, json};

use super::support::*;
use crate::checkpoint::{CheckpointId, History, Source};

checks! {
    "list: the newest comes first" => newest_first(),
    "list: a namespace without checkpoints has no history" => empty(),
    "list: every checkpoint is whole" => whole(),
    "list: every checkpoint has its records" => with_records(),
    "list: a limit gives the newest so many" => limit(2, 2),
    "list: a limit of none gives none" => limit(0, 0),
    "list: a limit beyond the history gives all" => limit(100, 5),
    "list: before leaves out the checkpoint itself and all newer ones" => before(),
    "list: before the oldest is nothing" => before_oldest(),
    "list: before a checkpoint that is not there goes by age" => before_unknown(),
    "list: before and limit give the newest of the older" => before_and_limit(),
    "list: page by page gives every checkpoint once" => pages(),
    "list: only checkpoints of the source" => by_source(),
    "list: only checkpoints with the metadata" => finds(json!({"user": "ada"}), &[0, 2]),
    "list: all of several entries must be there" => finds(json!({"user": "ada", "n": 2}), &[2]),
    "list: metadata that no checkpoint has finds none" => finds(json!({"user": "eve"}), &[]),
    "list: a key that no checkpoint has finds none" => finds(json!({"nobody": "ada"}), &[]),
    "list: metadata null is not the same as absent" => finds(json!({"maybe": null}), &[1]),
    "list: a number is not its text" => finds(json!({"n": "2"}), &[]),
    "list: metadata false is found" => finds(json!({"ok": false}), &[1]),
    "list: a nested value must be equal as a whole" => finds(json!({"deep": {"a": [1, 2]}}), &[2]),
    "list: a part of a nested value is not enough" => finds(json!({"deep": {}}), &[]),
    "list: a key with dots is a key, not a path" => finds(json!({"deep.a": "dots"}), &[0]),
    "list: an entry with quotes is found" => finds(json!({"it's \"x\"": "it's \"y\" %_"}), &[0]),
    "list: no metadata in the query finds all" => finds(json!({}), &[0, 1, 2]),
    "list: the limit counts only what matches" => limit_counts_matches(),
    "list: source, metadata, before and limit go together" => all_filters(),
    "list: only this thread's checkpoints" => apart(first().thread("other")),
    "list: only this namespace's checkpoints" => apart(first().namespace("child:1")),
}

async fn newest_first(saver: Saver) -> Outcome {
    let chain = chain(&saver, 5).await?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))
}

async fn empty(saver: Saver) -> Outcome {
    chain(&saver, 1).await?;
    let elsewhere = [History::of("other", ROOT), History::of(THREAD, "child:1")];
    for query in elsewhere {
        same("the checkpoints", ids(&saver, &query).await?, vec![])?;
    }
    Ok(())
}

async fn whole(saver: Saver) -> Outcome {
    let chain = chain(&saver, 3).await?;
    for (checkpoint, idx) in saver.list(&history()).await?.into_iter().zip([2, 1, 0]) {
        let one = read(&saver, chain[idx]).await?;
        same("the place", checkpoint.place, one.place)?;
        same("the header", checkpoint.header, one.header)?;
        same("the cursor", checkpoint.cursor, one.cursor)?;
        same("the values", Value::Object(checkpoint.values), logged(idx))?;
    }
    Ok(())
}

async fn with_records(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let records = vec![record("b", done(1)), record("a", done(2))];
    saver.record(&place(ids[1]), records.clone()).await?;
    let found: Vec<_> = saver.list(&history()).await?.into_iter().map(|it| it.records).collect();
    same("the records", found, vec![vec![], records, vec![]])
}

async fn limit(saver: Saver, limit: usize, expected: usize) -> Outcome {
    let chain = chain(&saver, 5).await?;
    let found = ids(&saver, &history().limit(limit)).await?;
    same("the checkpoints", found, reversed(&chain)[..expected].to_vec())
}

async fn before(saver: Saver) -> Outcome {
    let chain = chain(&saver, 5).await?;
    same("the checkpoints", ids(&saver, &history().before(chain[3])).await?, reversed(&chain[..3]))
}

async fn before_oldest(saver: Saver) -> Outcome {
    let chain = chain(&saver, 2).await?;
    same("the checkpoints", ids(&saver, &history().before(chain[0])).await?, vec![])
}

async fn before_unknown(saver: Saver) -> Outcome {
    let first = first().put(&saver).await?;
    let between = CheckpointId::next();
    after(first).put(&saver).await?;
    same("the checkpoints", ids(&saver, &history().before(between)).await?, vec![first])
}

async fn before_and_limit(saver: Saver) -> Outcome {
    let chain = chain(&saver, 5).await?;
    let found = ids(&saver, &history().before(chain[4]).limit(2)).await?;
    same("the checkpoints", found, vec![chain[3], chain[2]])
}

async fn pages(saver: Saver) -> Outcome {
    let chain = chain(&saver, 7).await?;
    let mut found = ids(&saver, &history().limit(3)).await?;
    // Bounded, or a saver that ignores `before` would keep the check busy for ever.
    for _ in 0..chain.len() {
        let Some(last) = found.last().copied() else { break };
        found.extend(ids(&saver, &history().before(last).limit(3)).await?);
    }
    same("the checkpoints", found, reversed(&chain))
}

async fn by_source(saver: Saver) -> Outcome {
    let sources = [Source::Input, Source::Loop, Source::Update, Source::Fork];
    let mut chain = vec![first().source(sources[0]).put(&saver).await?];
    for source in &sources[1..] {
        chain.push(after(chain[chain.len() - 1]).source(*source).put(&saver).await?);
    }
    for (id, source) in chain.into_iter().zip(sources) {
        let query = History { source: Some(source), ..history() };
        same(source.as_str(), ids(&saver, &query).await?, vec![id])?;
    }
    Ok(())
}

/// Three checkpoints with metadata, of which the query finds these.
async fn finds(saver: Saver, metadata: Value, expected: &[usize]) -> Outcome {
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
    let query = History { metadata: object(metadata), ..history() };
    let expected = expected.iter().rev().map(|idx| chain[*idx]).collect();
    same("the checkpoints", ids(&saver, &query).await?, expected)
}

/// Ten checkpoints; the even ones are updates and have `"even": true`.
async fn ten(saver: &Saver) -> Outcome<Vec<CheckpointId>> {
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

async fn limit_counts_matches(saver: Saver) -> Outcome {
    let chain = ten(&saver).await?;
    let query = History { metadata: object(json!({"even": true})), ..history() };
    same("the checkpoints", ids(&saver, &query.limit(2)).await?, vec![chain[8], chain[6]])
}

async fn all_filters(saver: Saver) -> Outcome {
    let chain = ten(&saver).await?;
    let query = History {
        source: Some(Source::Update),
        metadata: object(json!({"third": 0})),
        ..history().before(chain[6]).limit(3)
    };
    same("the checkpoints", ids(&saver, &query).await?, vec![chain[0]])
}

async fn apart(saver: Saver, elsewhere: Draft) -> Outcome {
    let here = chain(&saver, 2).await?;
    let place = elsewhere.0.place.clone();
    let there = chain_like(&saver, &elsewhere, 3).await?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&here))?;
    let query = History::of(place.thread, place.namespace);
    same("the other's checkpoints", ids(&saver, &query).await?, reversed(&there))
}
