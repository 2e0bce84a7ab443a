//! get: reads a checkpoint by id, or the newest one if no id is given.

use graph_core::checkpoint::{CheckpointId, Lookup};
use serde_json::Value;

use super::support::*;

checks! {
    "get: an unknown thread has no newest checkpoint" => nothing(Lookup::head("other", ROOT)),
    "get: an unknown namespace has no newest checkpoint" => nothing(Lookup::head(THREAD, "child:1")),
    "get: an unknown id finds nothing" => nothing(Lookup::exact(THREAD, ROOT, CheckpointId::next())),
    "get: an id between two others finds nothing" => between(),
    "get: an id of another namespace finds nothing" => elsewhere(first().namespace("child:1")),
    "get: an id of another thread finds nothing" => elsewhere(first().thread("other")),
    "get: without an id it returns the newest checkpoint" => newest(),
    "get: with an id it returns that checkpoint" => exact(),
    "get: the key names thread and namespace" => names_key(),
    "get: the newest checkpoint includes its records" => records(),
    "get: reading changes nothing" => twice(),
}

async fn nothing(saver: Saver, at: Lookup) -> CheckResult {
    chain(&saver, 2).await?;
    expect_eq("the checkpoint", saver.get(&at).await?.map(|it| it.key), None)
}

async fn between(saver: Saver) -> CheckResult {
    let first = first().put(&saver).await?;
    let between = CheckpointId::next();
    after(first).put(&saver).await?;
    expect_absent(&saver, &key(between)).await
}

async fn elsewhere(saver: Saver, elsewhere: Draft) -> CheckResult {
    first().put(&saver).await?;
    let id = elsewhere.put(&saver).await?;
    expect_absent(&saver, &key(id)).await
}

async fn newest(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let found = saver.get(&Lookup::head(THREAD, ROOT)).await?;
    expect_eq("the key", found.as_ref().map(|it| &it.key), Some(&key(ids[2])))?;
    expect_eq("the values", found.map(|it| Value::Object(it.values)), Some(chain_values(2)))
}

async fn exact(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    for (idx, id) in ids.into_iter().enumerate() {
        expect_eq("the key", read(&saver, id).await?.key, key(id))?;
        expect_values(&saver, id, chain_values(idx)).await?;
    }
    Ok(())
}

async fn names_key(saver: Saver) -> CheckResult {
    let id = first().thread("t").namespace("child:1").put(&saver).await?;
    let key = key_in("t", "child:1", id);
    let found = saver.get(&Lookup::head("t", "child:1")).await?;
    expect_eq("the key", found.map(|it| it.key), Some(key))
}

async fn records(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    let records = vec![record("b", done(1)), record("a", done(2))];
    saver.record(&key(ids[1]), records.clone()).await?;
    let found = saver.get(&Lookup::head(THREAD, ROOT)).await?;
    expect_eq("the records", found.map(|it| it.records), Some(records))
}

async fn twice(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    for _ in 0..3 {
        expect_values(&saver, ids[2], chain_values(2)).await?;
    }
    expect_values(&saver, ids[1], chain_values(1)).await
}
