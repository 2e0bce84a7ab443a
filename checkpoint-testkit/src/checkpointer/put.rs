//! put: stored checkpoints are read back unchanged, and `put` is idempotent.

use std::time::{Duration, SystemTime};

use graph_core::checkpoint::{CheckpointError, CheckpointId, Header, Keep, Source};
use serde_json::json;

use super::support::*;

checks! {
    "put: a checkpoint reads back unchanged" => reads_back(),
    "put: a checkpoint without fields has no values" => no_fields(),
    "put: a checkpoint without a parent reads back without one" => keeps(first()),
    "put: the parent is kept" => keeps(first().header(|it| it.parent = Some(CheckpointId::next()))),
    "put: an origin that differs from the parent is kept" => keeps(first().header(|it| {
        it.parent = Some(CheckpointId::next());
        it.origin = CheckpointId::next();
    })),
    "put: the step -1 is kept" => keeps(first().header(|it| it.step = -1)),
    "put: the largest step is kept" => keeps(first().header(|it| it.step = i64::MAX)),
    "put: the source input is kept" => keeps(first().source(Source::Input)),
    "put: the source loop is kept" => keeps(first().source(Source::Loop)),
    "put: the source update is kept" => keeps(first().source(Source::Update)),
    "put: the source fork is kept" => keeps(first().source(Source::Fork)),
    "put: the creation time is kept to the nanosecond" => keeps(first().header(precise_time)),
    "put: the run is kept" => keeps(first().run("a run, \"quoted\"")),
    "put: the state version is kept" => keeps(first().header(|it| it.version = u32::MAX)),
    "put: the checkpoints of enclosing graphs are kept" => keeps(first().header(parents)),
    "put: metadata is kept" => keeps(first().metadata(json!({"user": "ada", "tags": ["a", {"b": null}]}))),
    "put: every field of the frontier is kept" => keeps_frontier(),
    "put: putting twice is not an error and changes nothing" => twice(),
    "put: putting again after later checkpoints is not an error" => twice_later(),
    "put: putting twice does not extend a list twice" => twice_extended(),
    "put: putting twice keeps the first content" => second_differs(),
    "put: the same id from another run is rejected" => from_another_run(),
    "put: a checkpoint older than the head is rejected" => older_than_the_head(),
    "put: putting twice keeps the records" => second_keeps_records(),
    "put: an unknown base is rejected" => unknown_base(),
    "put: a base in another namespace is rejected" => base_elsewhere(first().namespace("child:1")),
    "put: a base in another thread is rejected" => base_elsewhere(first().thread("other")),
    "put: a pruned base is rejected" => base_pruned(),
    "put: an id may occur in several threads and namespaces" => same_id_elsewhere(),
}

async fn reads_back(saver: Saver) -> CheckResult {
    let draft = first().set("a", 1).set("b", "two");
    saver.put(draft.0.clone()).await?;

    let found = read(&saver, draft.id()).await?;
    expect_eq("the key", found.key, draft.0.key)?;
    expect_eq("the header", found.header, draft.0.header)?;
    expect_eq("the frontier", found.frontier, draft.0.frontier)?;
    expect_eq("the records", found.records, vec![])?;
    expect_eq("the values", found.values, object(json!({"a": 1, "b": "two"})))
}

async fn no_fields(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    expect_values(&saver, id, json!({})).await
}

async fn keeps(saver: Saver, draft: Draft) -> CheckResult {
    saver.put(draft.0.clone()).await?;
    expect_eq("the header", read(&saver, draft.id()).await?.header, draft.0.header)
}

fn precise_time(header: &mut Header) {
    header.created_at = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
}

fn parents(header: &mut Header) {
    header.parents = ["", "outer:1", "outer:1|inner:2"]
        .map(|namespace| (namespace.to_owned(), CheckpointId::next()))
        .into();
}

async fn keeps_frontier(saver: Saver) -> CheckResult {
    let mut draft = first();
    draft.0.frontier = frontier(json!({
        "version": u64::MAX,
        "seen": 7,
        "ran": ["b", "a"],
        "armed": ["c"],
        "held": ["d", "e"],
        "released": ["f"],
        "joins": {"a+b": ["a"], "c+d": []},
        "sends": [
            {"node": "worker", "payload": 2},
            {"node": "worker", "payload": null},
            {"node": "worker", "payload": {"deep": [1.5]}},
        ],
        "input": {"writes": [write("x", 1)], "gotos": [goto("a")]},
    }));
    saver.put(draft.0.clone()).await?;
    expect_eq("the frontier", read(&saver, draft.id()).await?.frontier, draft.0.frontier)
}

async fn twice(saver: Saver) -> CheckResult {
    let draft = first().set("a", 1);
    draft.clone().put(&saver).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![id])?;
    expect_values(&saver, id, json!({"a": 1})).await
}

async fn twice_later(saver: Saver) -> CheckResult {
    let draft = first().set("a", 1);
    let id = draft.clone().put(&saver).await?;
    let next = after(id).set("a", 2).put(&saver).await?;
    draft.put(&saver).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(next))?;
    expect_values(&saver, next, json!({"a": 2})).await
}

async fn twice_extended(saver: Saver) -> CheckResult {
    let base = first().extend("list", [1]).put(&saver).await?;
    let draft = after(base).extend("list", [2]);
    draft.clone().put(&saver).await?;
    let id = draft.put(&saver).await?;
    expect_values(&saver, id, json!({"list": [1, 2]})).await?;
    let next = after(id).extend("list", [3]).put(&saver).await?;
    expect_values(&saver, next, json!({"list": [1, 2, 3]})).await
}

async fn second_differs(saver: Saver) -> CheckResult {
    let draft = first().run("one");
    draft.clone().set("a", 1).put(&saver).await?;
    let id = draft.set("a", 2).put(&saver).await?;
    expect_values(&saver, id, json!({"a": 1})).await
}

async fn from_another_run(saver: Saver) -> CheckResult {
    let draft = first().run("one");
    let id = draft.clone().set("a", 1).put(&saver).await?;
    expect_err!(draft.set("a", 2).run("two").put(&saver).await, CheckpointError::HeadMoved { .. });
    expect_values(&saver, id, json!({"a": 1})).await
}

async fn older_than_the_head(saver: Saver) -> CheckResult {
    let older = first();
    let head = first().put(&saver).await?;
    let late = older.expecting(head);
    let id = late.id();
    expect_err!(late.put(&saver).await, CheckpointError::NotNewer { id: found, .. } if *found == id);
    expect_eq("the head", ids(&saver, &history()).await?, vec![head])
}

async fn second_keeps_records(saver: Saver) -> CheckResult {
    let draft = first();
    let id = draft.clone().put(&saver).await?;
    let records = vec![record("a", done(1))];
    saver.record(&key(id), records.clone()).await?;
    draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, records)
}

async fn unknown_base(saver: Saver) -> CheckResult {
    let head = first().put(&saver).await?;
    let unknown = CheckpointId::next();
    let draft = after(head).based_on(unknown).extend("list", [1]);
    expect_err!(
        saver.put(draft.0.clone()).await,
        CheckpointError::UnknownCheckpoint { id, .. } if *id == unknown
    );
    expect_absent(&saver, &draft.0.key).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![head])
}

async fn base_elsewhere(saver: Saver, elsewhere: Draft) -> CheckResult {
    let base = elsewhere.set("a", 1).put(&saver).await?;
    let draft = first().based_on(base);
    expect_err!(saver.put(draft.0).await, CheckpointError::UnknownCheckpoint { id, .. } if *id == base);
    Ok(())
}

async fn base_pruned(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    saver.prune(&[THREAD.to_owned()], Keep::Newest(1)).await?;
    let draft = after(ids[1]).based_on(ids[0]);
    expect_err!(saver.put(draft.0).await, CheckpointError::UnknownCheckpoint { id, .. } if *id == ids[0]);
    Ok(())
}

async fn same_id_elsewhere(saver: Saver) -> CheckResult {
    let draft = first();
    let places = [("x", ""), ("x", "child:1"), ("y", "")];
    for (idx, (thread, namespace)) in places.into_iter().enumerate() {
        let draft = draft.clone().thread(thread).namespace(namespace);
        draft.set("n", idx).put(&saver).await?;
    }
    for (idx, (thread, namespace)) in places.into_iter().enumerate() {
        expect_values_at(&saver, &key_in(thread, namespace, draft.id()), json!({"n": idx})).await?;
    }
    Ok(())
}
