//! Concurrent callers: they all observe one consistent result.

use graph_core::checkpoint::{CheckpointError, Keep, Lookup};
use serde_json::{Value, json};

use super::{check::CheckFuture, support::*};

checks! {
    "concurrency: many threads are written concurrently" => many_threads(),
    "concurrency: many namespaces of a thread are written concurrently" => many_namespaces(),
    "concurrency: of two writers on one head exactly one wins" => one_winner(),
    "concurrency: of many initial checkpoints exactly one wins" => one_initial(),
    "concurrency: a checkpoint put by many writers is stored once" => same_put(),
    "concurrency: records of many tasks are all kept" => many_records(),
    "concurrency: of many results of a task exactly one is kept" => one_result(),
    "concurrency: of many callers exactly one gets the lease" => one_lease(),
    "concurrency: of many copies to one name exactly one succeeds" => one_copy(),
    "concurrency: a reader sees only complete checkpoints" => complete_reads(),
    "concurrency: pruning does not affect a writer" => prune_concurrently(),
}

const MANY: usize = 16;

async fn many_threads(saver: Saver) -> CheckResult {
    let like = (0..MANY).map(|n| first().thread(&format!("thread {n}"))).collect();
    write_concurrently(saver, like).await
}

async fn many_namespaces(saver: Saver) -> CheckResult {
    let like = (0..MANY).map(|n| first().namespace(&format!("child:{n}"))).collect();
    write_concurrently(saver, like).await
}

async fn write_concurrently(saver: Saver, drafts: Vec<Draft>) -> CheckResult {
    let writers = drafts.clone().into_iter().map(|draft| {
        let saver = saver.clone();
        async move { chain_like(&saver, &draft, 10).await.map(|ids| (draft.0.key, ids)) }
    });
    for written in run_concurrently(writers).await {
        let (key, ids) = written?;
        for (idx, id) in ids.into_iter().enumerate() {
            expect_values_at(&saver, &key_in(&key.thread, &key.namespace, id), chain_values(idx))
                .await?;
        }
    }
    Ok(())
}

async fn one_winner(saver: Saver) -> CheckResult {
    let mut log = vec![json!("first")];
    let mut head = first().extend("log", ["first"]).put(&saver).await?;
    for _ in 0..20 {
        let drafts = ["left", "right"].map(|name| after(head).run(name).extend("log", [name]));
        let won = winners(&saver, drafts.into()).await?;
        expect_eq("the number of winners", won.len(), 1)?;
        head = won[0].id();
        log.push(json!(won[0].0.header.run));
        expect_values(&saver, head, json!({"log": &log})).await?;
    }
    expect_eq("the number of checkpoints", saver.list(&history()).await?.len(), log.len())
}

async fn one_initial(saver: Saver) -> CheckResult {
    let drafts = (0..MANY).map(|n| first().set("n", n)).collect();
    let won = winners(&saver, drafts).await?;
    let ids = ids(&saver, &history()).await?;
    expect_eq("the stored checkpoints", ids, won.iter().map(Draft::id).collect())?;
    expect_eq("the number of winners", won.len(), 1)
}

/// Stores all drafts concurrently and returns those that were stored. All other drafts must be rejected because the
/// head moved.
async fn winners(saver: &Saver, drafts: Vec<Draft>) -> CheckResult<Vec<Draft>> {
    let writers = drafts.into_iter().map(|draft| {
        let saver = saver.clone();
        async move { (saver.put(draft.0.clone()).await, draft) }
    });
    let mut won = Vec::new();
    for (result, draft) in run_concurrently(writers).await {
        match result {
            Ok(()) => won.push(draft),
            Err(CheckpointError::HeadMoved { .. }) => expect_absent(saver, &draft.0.key).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(won)
}

async fn same_put(saver: Saver) -> CheckResult {
    let base = first().extend("list", [1]).put(&saver).await?;
    let draft = after(base).extend("list", [2]);
    let won = winners(&saver, vec![draft.clone(); MANY]).await?;
    expect_eq("the number of successful writers", won.len(), MANY)?;
    expect_values(&saver, draft.id(), json!({"list": [1, 2]})).await
}

async fn many_records(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    let writers = (0..MANY).map(|n| {
        let saver = saver.clone();
        async move { saver.record(&key(id), vec![record(&format!("{n:02}"), done(n))]).await }
    });
    for result in run_concurrently(writers).await {
        result?;
    }
    let mut found = read(&saver, id).await?.records;
    found.sort_by(|a, b| a.node.cmp(&b.node));
    expect_eq(
        "the records",
        found,
        (0..MANY).map(|n| record(&format!("{n:02}"), done(n))).collect(),
    )
}

async fn one_result(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    let writers = (0..MANY).map(|n| {
        let saver = saver.clone();
        async move {
            saver.record(&key(id), vec![record("a", done(n))]).await?;
            read(&saver, id).await.map(|it| it.records)
        }
    });
    let kept = run_concurrently(writers).await.into_iter().collect::<CheckResult<Vec<_>>>()?;
    expect_eq("the number of results", kept[0].len(), 1)?;
    for records in &kept {
        expect_eq("the result read by another task", records, &kept[0])?;
    }
    Ok(())
}

async fn one_lease(saver: Saver) -> CheckResult {
    let callers = (0..MANY).map(|_| {
        let saver = saver.clone();
        async move { saver.lease(THREAD).await }
    });
    // `results` keeps the leases alive until they are counted.
    let results = run_concurrently(callers).await;
    for result in &results {
        if result.is_err() {
            expect_err!(result, CheckpointError::Busy { .. });
        }
    }
    expect_eq("the number of leases", results.iter().filter(|it| it.is_ok()).count(), 1)
}

async fn one_copy(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 3).await?;
    let copies = (0..MANY).map(|_| {
        let saver = saver.clone();
        async move { saver.copy_thread(THREAD, "copy").await }
    });
    let results = run_concurrently(copies).await;
    for result in &results {
        if result.is_err() {
            expect_err!(result, CheckpointError::ThreadExists { .. });
        }
    }
    expect_eq("the number of copies", results.iter().filter(|it| it.is_ok()).count(), 1)?;
    expect_eq("the namespaces", saver.namespaces("copy").await?, vec![(ROOT.to_owned(), 3)])?;
    expect_values_at(&saver, &key_in("copy", ROOT, chain[2]), chain_values(2)).await
}

async fn complete_reads(saver: Saver) -> CheckResult {
    let (writing, reading) = (saver.clone(), saver);
    let work: [CheckFuture; 2] = [
        Box::pin(async move { chain(&writing, 200).await.map(drop) }),
        Box::pin(async move {
            for _ in 0..200 {
                if let Some(checkpoint) = reading.get(&Lookup::head(THREAD, ROOT)).await? {
                    let idx = usize::try_from(checkpoint.header.step + 1).unwrap_or(usize::MAX);
                    expect_eq("the values", Value::Object(checkpoint.values), chain_values(idx))?;
                }
                tokio::task::yield_now().await;
            }
            Ok(())
        }),
    ];
    run_concurrently(work).await.into_iter().collect()
}

async fn prune_concurrently(saver: Saver) -> CheckResult {
    let (writing, pruning) = (saver.clone(), saver.clone());
    let work: [CheckFuture; 2] = [
        Box::pin(async move { chain(&writing, 200).await.map(drop) }),
        Box::pin(async move {
            for _ in 0..50 {
                pruning.prune(&[THREAD.to_owned()], Keep::Newest(1)).await?;
                tokio::task::yield_now().await;
            }
            Ok(())
        }),
    ];
    run_concurrently(work).await.into_iter().collect::<CheckResult>()?;
    let found = saver.get(&Lookup::head(THREAD, ROOT)).await?;
    expect_eq("the values", found.map(|it| Value::Object(it.values)), Some(chain_values(199)))
}
