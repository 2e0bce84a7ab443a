//! delete_runs: deletes the checkpoints of the given runs in all threads. The checkpoints of other runs stay readable.

use graph_core::checkpoint::CheckpointId;
use serde_json::json;

use super::support::*;

checks! {
    "delete_runs: the run's checkpoints are deleted" => one_run(),
    "delete_runs: several runs are deleted at once" => several_runs(),
    "delete_runs: all threads and namespaces are covered" => everywhere(),
    "delete_runs: the run's records are deleted" => records_gone(),
    "delete_runs: records of other runs' checkpoints are kept" => records_stay(),
    "delete_runs: records whose checkpoint is not stored yet are kept" => early_records_stay(),
    "delete_runs: an empty list deletes nothing" => nothing(&[]),
    "delete_runs: an unknown run deletes nothing" => nothing(&["unknown", "", "ru", "run1", "RUN"]),
    "delete_runs: a checkpoint whose base was deleted reads back completely" => kept_readable(),
    "delete_runs: a branch whose base was deleted reads back completely" => branch_stays(),
    "delete_runs: the newest remaining checkpoint becomes the head" => head_falls_back(),
    "delete_runs: an emptied thread no longer exists" => left_empty(),
}

/// Stores six consecutive checkpoints: two of run `a`, two of run `b` and two of run `c`.
async fn three_runs(saver: &Saver) -> CheckResult<Vec<CheckpointId>> {
    let mut chain: Vec<CheckpointId> = Vec::new();
    for (idx, run) in ["a", "a", "b", "b", "c", "c"].into_iter().enumerate() {
        let draft = chain.last().map_or_else(first, |head| after(*head));
        let draft = draft.run(run).set("n", idx).extend("log", [idx]);
        chain.push(draft.put(saver).await?);
    }
    Ok(chain)
}

async fn delete(saver: &Saver, runs: &[&str]) -> CheckResult {
    let runs: Vec<_> = runs.iter().map(|it| (*it).to_owned()).collect();
    Ok(saver.delete_runs(&runs).await?)
}

async fn one_run(saver: Saver) -> CheckResult {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["b"]).await?;
    expect_absent(&saver, &key(chain[2])).await?;
    let left = [chain[5], chain[4], chain[1], chain[0]];
    expect_eq("the checkpoints", ids(&saver, &history()).await?, left.into())
}

async fn several_runs(saver: Saver) -> CheckResult {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["a", "c"]).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![chain[3], chain[2]])
}

async fn everywhere(saver: Saver) -> CheckResult {
    for draft in [first(), first().thread("other"), first().namespace("child:1")] {
        let key = draft.0.key.clone();
        let id = draft.run("a").put(&saver).await?;
        let next = after(id).thread(&key.thread).namespace(&key.namespace).run("b");
        next.put(&saver).await?;
    }
    delete(&saver, &["b"]).await?;
    expect_eq("the namespaces", saver.namespaces("other").await?, vec![(ROOT.to_owned(), 1)])?;
    let both = [(ROOT.to_owned(), 1), ("child:1".to_owned(), 1)];
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, both.into())
}

async fn records_gone(saver: Saver) -> CheckResult {
    let draft = first().run("a");
    draft.clone().put(&saver).await?;
    saver.record(&draft.0.key, vec![record("t", done(1))]).await?;
    delete(&saver, &["a"]).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![])
}

async fn records_stay(saver: Saver) -> CheckResult {
    let chain = three_runs(&saver).await?;
    saver.record(&key(chain[1]), vec![record("t", done(1))]).await?;
    delete(&saver, &["b"]).await?;
    expect_eq("the records", read(&saver, chain[1]).await?.records, vec![record("t", done(1))])
}

/// Records whose checkpoint is not stored yet are kept, because they may belong to another run that is in progress.
async fn early_records_stay(saver: Saver) -> CheckResult {
    first().thread("other").run("b").put(&saver).await?;
    let head = first().run("a").put(&saver).await?;
    let draft = after(head).run("a");
    saver.record(&draft.0.key, vec![record("t", done(1))]).await?;
    delete(&saver, &["b"]).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![record("t", done(1))])
}

async fn nothing(saver: Saver, runs: &[&str]) -> CheckResult {
    let chain = chain(&saver, 3).await?;
    delete(&saver, runs).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    expect_values(&saver, chain[2], chain_values(2)).await
}

async fn kept_readable(saver: Saver) -> CheckResult {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["a", "b"]).await?;
    expect_values(&saver, chain[5], chain_values(5)).await?;
    expect_values(&saver, chain[4], chain_values(4)).await
}

async fn branch_stays(saver: Saver) -> CheckResult {
    let base = first().run("a").extend("list", [0]).put(&saver).await?;
    let left = after(base).run("b").extend("list", [1]).put(&saver).await?;
    let right = after(left).based_on(base).run("c").extend("list", [2]).put(&saver).await?;
    delete(&saver, &["a", "b"]).await?;
    expect_absent(&saver, &key(left)).await?;
    expect_values(&saver, right, json!({"list": [0, 2]})).await
}

async fn head_falls_back(saver: Saver) -> CheckResult {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["b", "c"]).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(chain[1]))?;
    let id = after(chain[1]).extend("log", ["on"]).put(&saver).await?;
    expect_values(&saver, id, json!({"n": 1, "log": [0, 1, "on"]})).await
}

async fn left_empty(saver: Saver) -> CheckResult {
    first().run("a").put(&saver).await?;
    delete(&saver, &["a"]).await?;
    expect_eq("the threads", saver.threads().await?, vec![])?;
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, vec![])?;
    first().put(&saver).await?;
    Ok(())
}
