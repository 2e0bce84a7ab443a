//! copy_thread: the copy is complete and independent of the original.

use graph_core::checkpoint::{CheckpointError, CheckpointId, CheckpointKey, HistoryQuery, Keep};
use serde_json::json;

use super::support::*;

checks! {
    "copy_thread: all checkpoints are copied in order" => all_copied(),
    "copy_thread: every checkpoint is copied unchanged" => unchanged(),
    "copy_thread: the keys name the new thread" => keys(),
    "copy_thread: all namespaces are copied" => namespaces(),
    "copy_thread: records are copied" => records(),
    "copy_thread: forks are copied" => forks(),
    "copy_thread: the original is unchanged" => original_unchanged(),
    "copy_thread: writes to the copy do not affect the original" => put_on_copy(),
    "copy_thread: writes to the original do not affect the copy" => put_on_original(),
    "copy_thread: records of copy and original are independent" => record_on_copy(),
    "copy_thread: pruning the original does not affect the copy" => prune_original(),
    "copy_thread: a copy can be copied" => copy_of_copy(),
    "copy_thread: an unknown thread is an error" => unknown(),
    "copy_thread: copying a deleted thread is an error" => deleted(),
    "copy_thread: an existing thread is not overwritten" => exists(),
    "copy_thread: a thread cannot be copied to itself" => to_itself(),
    "copy_thread: the name of a deleted thread can be reused" => deleted_name(),
    "copy_thread: a name whose checkpoints were all rejected can be used" => rejected_name(),
    "copy_thread: the name of an emptied thread can be reused" => emptied_name(),
}

const COPY: &str = "copy";

fn in_copy(id: CheckpointId) -> CheckpointKey {
    key_in(COPY, ROOT, id)
}

async fn copied(saver: &Saver) -> CheckResult<Vec<CheckpointId>> {
    let chain = chain(saver, 4).await?;
    saver.copy_thread(THREAD, COPY).await?;
    Ok(chain)
}

async fn all_copied(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    let found = ids(&saver, &HistoryQuery::new(COPY, ROOT)).await?;
    expect_eq("the checkpoints", found, reversed(&chain))?;
    expect_eq("the head", head(&saver, COPY, ROOT).await?, chain.last().copied())?;
    expect_eq("the threads", saver.threads().await?, [COPY, THREAD].map(str::to_owned).into())
}

async fn unchanged(saver: Saver) -> CheckResult {
    let head = first().metadata(json!({"user": "ada"})).set("a", 1).put(&saver).await?;
    let mut draft = after(head).extend("list", [2]).run("later");
    draft.0.frontier = frontier(json!({"armed": ["node"]}));
    let last = draft.put(&saver).await?;
    saver.copy_thread(THREAD, COPY).await?;
    for id in [head, last] {
        let (copy, original) = (read_at(&saver, &in_copy(id)).await?, read(&saver, id).await?);
        expect_eq("the header", copy.header, original.header)?;
        expect_eq("the frontier", copy.frontier, original.frontier)?;
        expect_eq("the values", copy.values, original.values)?;
    }
    expect_values_at(&saver, &in_copy(last), json!({"a": 1, "list": [2]})).await
}

async fn keys(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    let found = saver.list(&HistoryQuery::new(COPY, ROOT)).await?;
    let found: Vec<_> = found.into_iter().map(|it| it.key).collect();
    expect_eq("the keys", found, chain.into_iter().rev().map(in_copy).collect())
}

async fn namespaces(saver: Saver) -> CheckResult {
    chain(&saver, 2).await?;
    let ids = chain_like(&saver, &first().namespace("child:1"), 3).await?;
    saver.copy_thread(THREAD, COPY).await?;
    let expected = [("", 2), ("child:1", 3)].map(|(name, n)| (name.to_owned(), n));
    expect_eq("the namespaces", saver.namespaces(COPY).await?, expected.into())?;
    expect_values_at(&saver, &key_in(COPY, "child:1", ids[2]), chain_values(2)).await
}

async fn records(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 2).await?;
    let records = vec![record("b", done(1)), record("a", effect("k", 2))];
    saver.record(&key(chain[0]), records.clone()).await?;
    saver.copy_thread(THREAD, COPY).await?;
    expect_eq("the records", read_at(&saver, &in_copy(chain[0])).await?.records, records)
}

async fn forks(saver: Saver) -> CheckResult {
    let base = first().extend("list", [0]).put(&saver).await?;
    let left = after(base).extend("list", [1]).put(&saver).await?;
    let right = after(left).based_on(base).extend("list", [2]).put(&saver).await?;
    saver.copy_thread(THREAD, COPY).await?;
    expect_values_at(&saver, &in_copy(left), json!({"list": [0, 1]})).await?;
    expect_values_at(&saver, &in_copy(right), json!({"list": [0, 2]})).await
}

async fn original_unchanged(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    expect_values(&saver, chain[3], chain_values(3)).await
}

async fn put_on_copy(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    let id = after(chain[3]).thread(COPY).extend("log", ["copy"]).put(&saver).await?;
    expect_values_at(&saver, &in_copy(id), json!({"n": 3, "log": [0, 1, 2, 3, "copy"]})).await?;
    expect_absent(&saver, &key(id)).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(chain[3]))?;
    expect_values(&saver, chain[3], chain_values(3)).await
}

async fn put_on_original(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    let id = after(chain[3]).extend("log", ["on"]).put(&saver).await?;
    expect_absent(&saver, &in_copy(id)).await?;
    expect_eq("the copy's head", head(&saver, COPY, ROOT).await?, Some(chain[3]))?;
    expect_values_at(&saver, &in_copy(chain[3]), chain_values(3)).await
}

async fn record_on_copy(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    saver.record(&in_copy(chain[3]), vec![record("a", done(1))]).await?;
    expect_eq("the original's records", read(&saver, chain[3]).await?.records, vec![])?;
    saver.record(&key(chain[3]), vec![record("a", done(2))]).await?;
    let found = read_at(&saver, &in_copy(chain[3])).await?.records;
    expect_eq("the copy's records", found, vec![record("a", done(1))])
}

async fn prune_original(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    saver.prune(&[THREAD.to_owned()], Keep::Newest(1)).await?;
    for (idx, id) in chain.into_iter().enumerate() {
        expect_values_at(&saver, &in_copy(id), chain_values(idx)).await?;
    }
    Ok(())
}

async fn copy_of_copy(saver: Saver) -> CheckResult {
    let chain = copied(&saver).await?;
    saver.copy_thread(COPY, "third").await?;
    saver.delete_thread(COPY).await?;
    expect_values_at(&saver, &key_in("third", ROOT, chain[3]), chain_values(3)).await
}

async fn unknown(saver: Saver) -> CheckResult {
    expect_err!(
        saver.copy_thread("unknown", COPY).await,
        CheckpointError::UnknownThread { thread } if thread == "unknown"
    );
    expect_eq("the threads", saver.threads().await?, vec![])
}

async fn deleted(saver: Saver) -> CheckResult {
    chain(&saver, 1).await?;
    saver.delete_thread(THREAD).await?;
    expect_err!(saver.copy_thread(THREAD, COPY).await, CheckpointError::UnknownThread { .. });
    Ok(())
}

async fn exists(saver: Saver) -> CheckResult {
    chain(&saver, 2).await?;
    let there = chain_like(&saver, &first().thread(COPY), 1).await?;
    expect_err!(
        saver.copy_thread(THREAD, COPY).await,
        CheckpointError::ThreadExists { thread } if thread == COPY
    );
    expect_eq("the checkpoints", ids(&saver, &HistoryQuery::new(COPY, ROOT)).await?, there)
}

async fn to_itself(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 2).await?;
    expect_err!(saver.copy_thread(THREAD, THREAD).await, CheckpointError::ThreadExists { .. });
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))
}

async fn deleted_name(saver: Saver) -> CheckResult {
    chain_like(&saver, &first().thread(COPY), 3).await?;
    saver.delete_thread(COPY).await?;
    let chain = copied(&saver).await?;
    expect_eq(
        "the checkpoints",
        ids(&saver, &HistoryQuery::new(COPY, ROOT)).await?,
        reversed(&chain),
    )
}

async fn rejected_name(saver: Saver) -> CheckResult {
    let draft = first().thread(COPY).expecting(CheckpointId::next());
    expect_err!(draft.put(&saver).await, CheckpointError::HeadMoved { .. });
    expect_err!(saver.copy_thread(COPY, "third").await, CheckpointError::UnknownThread { .. });
    copied(&saver).await?;
    Ok(())
}

async fn emptied_name(saver: Saver) -> CheckResult {
    first().thread(COPY).run("deleted").put(&saver).await?;
    saver.delete_runs(&["deleted".to_owned()]).await?;
    expect_err!(saver.copy_thread(COPY, "third").await, CheckpointError::UnknownThread { .. });
    copied(&saver).await?;
    Ok(())
}
