//! delete_thread: deletes one thread completely and nothing else.

use serde_json::json;

use super::support::*;

checks! {
    "delete_thread: its checkpoints are deleted" => checkpoints_gone(),
    "delete_thread: its records are deleted" => records_gone(),
    "delete_thread: records without a checkpoint are deleted" => early_records_gone(),
    "delete_thread: all its namespaces are deleted" => namespaces_gone(),
    "delete_thread: other threads are kept" => others_stay(),
    "delete_thread: a thread whose name has the same prefix is kept" => prefix_stays(),
    "delete_thread: deleting an unknown thread is not an error" => unknown(),
    "delete_thread: a deleted thread can be started again" => restarted(),
    "delete_thread: a copy of the thread is kept" => copy_stays(),
}

async fn checkpoints_gone(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 3).await?;
    saver.delete_thread(THREAD).await?;
    for id in chain {
        expect_absent(&saver, &key(id)).await?;
    }
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, None)?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![])?;
    expect_eq("the threads", saver.threads().await?, vec![])
}

async fn records_gone(saver: Saver) -> CheckResult {
    let draft = first();
    draft.clone().put(&saver).await?;
    saver.record(&draft.0.key, vec![record("a", done(1))]).await?;
    saver.delete_thread(THREAD).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![])
}

async fn early_records_gone(saver: Saver) -> CheckResult {
    let draft = first();
    saver.record(&draft.0.key, vec![record("a", done(1))]).await?;
    saver.delete_thread(THREAD).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![])
}

async fn namespaces_gone(saver: Saver) -> CheckResult {
    chain(&saver, 1).await?;
    let child = first().namespace("child:1").put(&saver).await?;
    saver.delete_thread(THREAD).await?;
    expect_absent(&saver, &key_in(THREAD, "child:1", child)).await?;
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, vec![])
}

async fn others_stay(saver: Saver) -> CheckResult {
    chain(&saver, 2).await?;
    let ids = chain_like(&saver, &first().thread("other"), 3).await?;
    let at = key_in("other", ROOT, ids[2]);
    saver.record(&at, vec![record("a", done(1))]).await?;
    saver.delete_thread(THREAD).await?;
    expect_values_at(&saver, &at, chain_values(2)).await?;
    expect_eq("the records", read_at(&saver, &at).await?.records, vec![record("a", done(1))])
}

async fn prefix_stays(saver: Saver) -> CheckResult {
    for thread in ["a", "ab", "a%", "_", "A"] {
        first().thread(thread).put(&saver).await?;
    }
    saver.delete_thread("a").await?;
    saver.delete_thread("_").await?;
    let mut found = saver.threads().await?;
    found.sort();
    expect_eq("the threads", found, ["A", "a%", "ab"].map(str::to_owned).into())
}

async fn unknown(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 1).await?;
    saver.delete_thread("unknown").await?;
    expect_values(&saver, ids[0], chain_values(0)).await
}

async fn restarted(saver: Saver) -> CheckResult {
    chain(&saver, 3).await?;
    saver.delete_thread(THREAD).await?;
    saver.delete_thread(THREAD).await?;
    let id = first().extend("log", ["new"]).put(&saver).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![id])?;
    expect_values(&saver, id, json!({"log": ["new"]})).await
}

async fn copy_stays(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    saver.copy_thread(THREAD, "copy").await?;
    saver.delete_thread(THREAD).await?;
    expect_values_at(&saver, &key_in("copy", ROOT, ids[2]), chain_values(2)).await
}
