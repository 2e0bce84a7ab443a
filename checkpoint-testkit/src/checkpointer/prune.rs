//! prune: deletes old checkpoints but never the newest one. The remaining checkpoints stay readable.

use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointId, HistoryQuery, Keep, PruneStats,
};
use serde_json::json;

use super::support::*;

checks! {
    "prune: the newest one is kept" => keeps(Keep::Newest(1), 1),
    "prune: the newest three are kept" => keeps(Keep::Newest(3), 3),
    "prune: a count of 0 still keeps the newest one" => keeps(Keep::Newest(0), 1),
    "prune: a count beyond the history keeps everything" => keeps(Keep::Newest(100), 5),
    "prune: a count of usize::MAX keeps everything" => keeps(Keep::Newest(usize::MAX), 5),
    "prune: `since` keeps checkpoints created at or after the time" => keeps(Keep::Since(time(1_030)), 2),
    "prune: `since` keeps the newest checkpoint even if it is older" => keeps(Keep::Since(time(9_999)), 1),
    "prune: `since` with a time before all checkpoints keeps everything" => keeps(Keep::Since(time(0)), 5),
    "prune: pruning twice deletes nothing more" => twice(),
    "prune: several threads are pruned and counted together" => several_threads(),
    "prune: each namespace is pruned separately" => each_namespace(),
    "prune: other threads are not affected" => others_unaffected(),
    "prune: an empty list deletes nothing" => nothing(&[]),
    "prune: an unknown thread deletes nothing" => nothing(&["unknown"]),
    "prune: a kept checkpoint whose base was deleted reads back completely" => kept_readable(),
    "prune: all kinds of changes survive the deletion of their checkpoint" => all_kinds(),
    "prune: a value set in a deleted checkpoint is kept" => set_long_ago(),
    "prune: two branches survive the base they share" => forks_survive(),
    "prune: age decides, not the step number" => by_age(),
    "prune: records of kept checkpoints are kept" => records_stay(),
    "prune: records whose checkpoint is not stored yet are kept" => early_records_stay(),
    "prune: a pruned thread can continue" => continues(),
    "prune: a deleted checkpoint is not accepted as head" => pruned_head(),
    "prune: pruning after every step keeps the thread readable" => after_every_step(),
    "prune: a header still names its deleted parent" => parent_stays(),
    "prune: a subgraph invocation is deleted with its step" => invocations_are_deleted(),
    "prune: a subgraph invocation whose step is not stored yet is kept" => pending_invocations_are_kept(),
    "prune: a subgraph that belongs to the thread is kept" => thread_subgraphs_are_kept(),
}

/// Stores two checkpoints of a subgraph that ran in a step of the root graph.
async fn invoke_subgraph(
    saver: &Saver,
    namespace: &str,
    step: CheckpointId,
) -> CheckResult<CheckpointId> {
    let nested = |draft: Draft| {
        let parents = [(ROOT.to_owned(), step)];
        draft.namespace(namespace).header(|it| it.parents = parents.into()).set("x", 1)
    };
    let first = nested(first()).put(saver).await?;
    Ok(nested(after(first)).put(saver).await?)
}

async fn invocations_are_deleted(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    let old = invoke_subgraph(&saver, "inside:1", chain[0]).await?;
    let deep = invoke_subgraph(&saver, "inside:1|deeper:2", chain[0]).await?;
    let kept = invoke_subgraph(&saver, "inside:3", chain[4]).await?;
    // Pruning deletes four checkpoints of the root graph, the older checkpoint of each of the three subgraphs, and the
    // newer checkpoint of each of the two subgraphs whose step was deleted.
    expect_eq(
        "the number of pruned checkpoints",
        prune(&saver, &[THREAD], Keep::Newest(1)).await?,
        4 + 3 + 2,
    )?;
    expect_absent(&saver, &key_in(THREAD, "inside:1", old)).await?;
    expect_absent(&saver, &key_in(THREAD, "inside:1|deeper:2", deep)).await?;
    expect_values_at(&saver, &key_in(THREAD, "inside:3", kept), json!({"x": 1})).await?;
    let left = saver.namespaces(THREAD).await?;
    expect_eq("the namespaces", left, vec![(ROOT.to_owned(), 1), ("inside:3".to_owned(), 1)])
}

async fn pending_invocations_are_kept(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    let pending = CheckpointId::after(chain.last().copied());
    let inside = invoke_subgraph(&saver, "inside:1", pending).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_values_at(&saver, &key_in(THREAD, "inside:1", inside), json!({"x": 1})).await
}

async fn thread_subgraphs_are_kept(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    let inside = invoke_subgraph(&saver, "inside", chain[0]).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_values_at(&saver, &key_in(THREAD, "inside", inside), json!({"x": 1})).await
}

/// Stores five checkpoints. Their creation times are 1,000 to 1,040 seconds after the Unix epoch, ten seconds apart.
async fn five(saver: &Saver) -> CheckResult<Vec<CheckpointId>> {
    let mut chain: Vec<CheckpointId> = Vec::new();
    for (idx, made_at) in (1_000..1_050).step_by(10).enumerate() {
        let draft = chain.last().map_or_else(first, |head| after(*head)).made_at(made_at);
        chain.push(draft.set("n", idx).extend("log", [idx]).put(saver).await?);
    }
    Ok(chain)
}

async fn prune(saver: &Saver, threads: &[&str], keep: Keep) -> CheckResult<usize> {
    let threads: Vec<_> = threads.iter().map(|it| (*it).to_owned()).collect();
    let PruneStats { checkpoints, .. } = saver.prune(&threads, keep).await?;
    Ok(checkpoints)
}

async fn keeps(saver: Saver, keep: Keep, n: usize) -> CheckResult {
    let chain = five(&saver).await?;
    expect_eq("the number of pruned checkpoints", prune(&saver, &[THREAD], keep).await?, 5 - n)?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain[5 - n..]))?;
    for (idx, id) in chain.into_iter().enumerate() {
        if idx < 5 - n {
            expect_absent(&saver, &key(id)).await?;
        } else {
            expect_values(&saver, id, chain_values(idx)).await?;
        }
    }
    Ok(())
}

async fn twice(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    expect_eq(
        "the number of pruned checkpoints",
        prune(&saver, &[THREAD], Keep::Newest(2)).await?,
        0,
    )?;
    expect_values(&saver, chain[4], chain_values(4)).await
}

async fn several_threads(saver: Saver) -> CheckResult {
    for (thread, n) in [("a", 4), ("b", 1), ("c", 3)] {
        chain_like(&saver, &first().thread(thread), n).await?;
    }
    expect_eq(
        "the number of pruned checkpoints",
        prune(&saver, &["a", "b", "c"], Keep::Newest(1)).await?,
        5,
    )?;
    for thread in ["a", "b", "c"] {
        expect_eq("the namespaces", saver.namespaces(thread).await?, vec![(ROOT.to_owned(), 1)])?;
    }
    Ok(())
}

async fn each_namespace(saver: Saver) -> CheckResult {
    chain(&saver, 4).await?;
    let ids = chain_like(&saver, &first().namespace("child:1"), 3).await?;
    chain_like(&saver, &first().namespace("child:2"), 1).await?;
    expect_eq(
        "the number of pruned checkpoints",
        prune(&saver, &[THREAD], Keep::Newest(2)).await?,
        3,
    )?;
    let expected = [("", 2), ("child:1", 2), ("child:2", 1)].map(|(name, n)| (name.to_owned(), n));
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, expected.into())?;
    expect_values_at(&saver, &key_in(THREAD, "child:1", ids[2]), chain_values(2)).await
}

async fn others_unaffected(saver: Saver) -> CheckResult {
    five(&saver).await?;
    let other = chain_like(&saver, &first().thread("other"), 3).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_eq(
        "the checkpoints",
        ids(&saver, &HistoryQuery::new("other", ROOT)).await?,
        reversed(&other),
    )
}

async fn nothing(saver: Saver, threads: &[&str]) -> CheckResult {
    let chain = five(&saver).await?;
    expect_eq(
        "the number of pruned checkpoints",
        prune(&saver, threads, Keep::Newest(1)).await?,
        0,
    )?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    expect_eq("the threads", saver.threads().await?, vec![THREAD.to_owned()])
}

async fn kept_readable(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 50).await?;
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    expect_values(&saver, chain[49], chain_values(49)).await?;
    expect_values(&saver, chain[48], chain_values(48)).await
}

async fn all_kinds(saver: Saver) -> CheckResult {
    let id = first().extend("list", [0, 1]).merge("map", json!({"a": 1})).set("removed", 1);
    let id = id.put(&saver).await?;
    let id = after(id).change("list", Change::Put(vec![(0, json!("zero"))]));
    let id = id.merge("map", json!({"b": 2})).change("removed", Change::Clear).put(&saver).await?;
    let id = after(id).extend("list", [2]).merge("map", json!({"a": 3})).put(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_values(&saver, id, json!({"list": ["zero", 1, 2], "map": {"a": 3, "b": 2}})).await
}

async fn set_long_ago(saver: Saver) -> CheckResult {
    let mut head = first().set("old", "kept").put(&saver).await?;
    for n in 0..20 {
        head = after(head).set("n", n).put(&saver).await?;
    }
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_values(&saver, head, json!({"old": "kept", "n": 19})).await
}

async fn forks_survive(saver: Saver) -> CheckResult {
    let base = first().extend("list", [0]).set("a", 1).put(&saver).await?;
    let left = after(base).extend("list", [1]).put(&saver).await?;
    let right = after(left).based_on(base).extend("list", [2]).put(&saver).await?;
    expect_eq(
        "the number of pruned checkpoints",
        prune(&saver, &[THREAD], Keep::Newest(2)).await?,
        1,
    )?;
    expect_absent(&saver, &key(base)).await?;
    expect_values(&saver, left, json!({"list": [0, 1], "a": 1})).await?;
    expect_values(&saver, right, json!({"list": [0, 2], "a": 1})).await?;
    let next = after(right).based_on(left).extend("list", [3]).put(&saver).await?;
    expect_values(&saver, next, json!({"list": [0, 1, 3], "a": 1})).await
}

/// Pruning keeps the newest checkpoints even if their step numbers are lower than those of older ones. A fork has a
/// lower step number, because its steps continue from the forked checkpoint.
async fn by_age(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 4).await?;
    let draft = after(chain[3]).based_on(chain[0]).header(|it| it.step = 0);
    let fork = draft.put(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![fork, chain[3]])
}

async fn records_stay(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    for id in &chain {
        saver.record(&key(*id), vec![record("a", done(1))]).await?;
    }
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    for id in &chain[3..] {
        expect_eq("the records", read(&saver, *id).await?.records, vec![record("a", done(1))])?;
    }
    Ok(())
}

/// Records whose checkpoint is not stored yet are kept, because they may belong to a run that is still in progress.
async fn early_records_stay(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    let draft = after(chain[4]);
    saver.record(&draft.0.key, vec![record("a", done(1))]).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![record("a", done(1))])
}

async fn continues(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(chain[4]))?;
    let id = after(chain[4]).set("n", 5).extend("log", [5]).put(&saver).await?;
    expect_values(&saver, id, chain_values(5)).await
}

async fn pruned_head(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_err!(after(chain[3]).put(&saver).await, CheckpointError::HeadMoved { .. });
    Ok(())
}

async fn after_every_step(saver: Saver) -> CheckResult {
    let mut head = first().set("n", 0).extend("log", [0]).put(&saver).await?;
    for n in 1..30 {
        head = after(head).set("n", n).extend("log", [n]).put(&saver).await?;
        prune(&saver, &[THREAD], Keep::Newest(1)).await?;
        expect_values(&saver, head, chain_values(n)).await?;
    }
    Ok(())
}

async fn parent_stays(saver: Saver) -> CheckResult {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    expect_eq("the parent", read(&saver, chain[4]).await?.header.parent, Some(chain[3]))
}
