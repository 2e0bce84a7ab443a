//! Many callers at once: what one gets to hear is true for all.

use serde_json::{Value, json};

use super::{Body, support::*};
use crate::checkpoint::{CheckpointError, Keep, Lookup};

checks! {
    "concurrency: many threads are written at once" => many_threads(),
    "concurrency: many namespaces of a thread are written at once" => many_namespaces(),
    "concurrency: of two writers on one head exactly one wins" => one_of_two(),
    "concurrency: of many beginnings exactly one wins" => one_beginning(),
    "concurrency: the same checkpoint put by many is stored once" => same_put(),
    "concurrency: records of many tasks are all kept" => many_records(),
    "concurrency: of many results of a task exactly one is kept" => one_result(),
    "concurrency: of many takers exactly one gets the lease" => one_lease(),
    "concurrency: of many copies to one name exactly one is made" => one_copy(),
    "concurrency: a reader sees only whole checkpoints" => whole_reads(),
    "concurrency: pruning does not disturb a writer" => prune_meanwhile(),
}

const MANY: usize = 16;

async fn many_threads(saver: Saver) -> Outcome {
    let like = (0..MANY).map(|n| first().thread(&format!("thread {n}"))).collect();
    written_at_once(saver, like).await
}

async fn many_namespaces(saver: Saver) -> Outcome {
    let like = (0..MANY).map(|n| first().namespace(&format!("child:{n}"))).collect();
    written_at_once(saver, like).await
}

async fn written_at_once(saver: Saver, drafts: Vec<Draft>) -> Outcome {
    let writers = drafts.clone().into_iter().map(|draft| {
        let saver = saver.clone();
        async move { chain_like(&saver, &draft, 10).await.map(|ids| (draft.0.place, ids)) }
    });
    for written in at_once(writers).await {
        let (place, ids) = written?;
        for (idx, id) in ids.into_iter().enumerate() {
            holds_at(&saver, &place_in(&place.thread, &place.namespace, id), logged(idx)).await?;
        }
    }
    Ok(())
}

async fn one_of_two(saver: Saver) -> Outcome {
    let mut log = vec![json!("first")];
    let mut head = first().extend("log", ["first"]).put(&saver).await?;
    for _ in 0..20 {
        let drafts = ["left", "right"].map(|name| after(head).run(name).extend("log", [name]));
        let won = winners(&saver, drafts.into()).await?;
        same("how many won", won.len(), 1)?;
        head = won[0].id();
        log.push(json!(won[0].0.header.run));
        holds(&saver, head, json!({"log": &log})).await?;
    }
    same("the number of checkpoints", saver.list(&history()).await?.len(), log.len())
}

async fn one_beginning(saver: Saver) -> Outcome {
    let drafts = (0..MANY).map(|n| first().set("n", n)).collect();
    let won = winners(&saver, drafts).await?;
    let ids = ids(&saver, &history()).await?;
    same("who is stored", ids, won.iter().map(Draft::id).collect())?;
    same("how many won", won.len(), 1)
}

/// Puts all drafts at once; gives those that were stored, where all others were refused for their head.
async fn winners(saver: &Saver, drafts: Vec<Draft>) -> Outcome<Vec<Draft>> {
    let writers = drafts.into_iter().map(|draft| {
        let saver = saver.clone();
        async move { (saver.put(draft.0.clone()).await, draft) }
    });
    let mut won = Vec::new();
    for (answer, draft) in at_once(writers).await {
        match answer {
            Ok(()) => won.push(draft),
            Err(CheckpointError::HeadMoved { .. }) => absent(saver, &draft.0.place).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(won)
}

async fn same_put(saver: Saver) -> Outcome {
    let base = first().extend("list", [1]).put(&saver).await?;
    let draft = after(base).extend("list", [2]);
    let won = winners(&saver, vec![draft.clone(); MANY]).await?;
    same("how many were told that it is stored", won.len(), MANY)?;
    holds(&saver, draft.id(), json!({"list": [1, 2]})).await
}

async fn many_records(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    let writers = (0..MANY).map(|n| {
        let saver = saver.clone();
        async move { saver.record(&place(id), vec![record(&format!("{n:02}"), done(n))]).await }
    });
    for answer in at_once(writers).await {
        answer?;
    }
    let mut found = read(&saver, id).await?.records;
    found.sort_by(|a, b| a.node.cmp(&b.node));
    same("the records", found, (0..MANY).map(|n| record(&format!("{n:02}"), done(n))).collect())
}

async fn one_result(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    let writers = (0..MANY).map(|n| {
        let saver = saver.clone();
        async move {
            saver.record(&place(id), vec![record("a", done(n))]).await?;
            read(&saver, id).await.map(|it| it.records)
        }
    });
    let kept = at_once(writers).await.into_iter().collect::<Outcome<Vec<_>>>()?;
    same("how many results there are", kept[0].len(), 1)?;
    for records in &kept {
        same("the result as another task reads it", records, &kept[0])?;
    }
    Ok(())
}

async fn one_lease(saver: Saver) -> Outcome {
    let takers = (0..MANY).map(|_| {
        let saver = saver.clone();
        async move { saver.lease(THREAD).await }
    });
    // The leases live on in `answers` until all are counted.
    let answers = at_once(takers).await;
    for answer in &answers {
        if answer.is_err() {
            refused!(answer, CheckpointError::Busy { .. });
        }
    }
    same("how many got it", answers.iter().filter(|it| it.is_ok()).count(), 1)
}

async fn one_copy(saver: Saver) -> Outcome {
    let chain = chain(&saver, 3).await?;
    let copies = (0..MANY).map(|_| {
        let saver = saver.clone();
        async move { saver.copy_thread(THREAD, "copy").await }
    });
    let answers = at_once(copies).await;
    for answer in &answers {
        if answer.is_err() {
            refused!(answer, CheckpointError::ThreadExists { .. });
        }
    }
    same("how many copied", answers.iter().filter(|it| it.is_ok()).count(), 1)?;
    same("the namespaces", saver.namespaces("copy").await?, vec![(ROOT.to_owned(), 3)])?;
    holds_at(&saver, &place_in("copy", ROOT, chain[2]), logged(2)).await
}

async fn whole_reads(saver: Saver) -> Outcome {
    let (writing, reading) = (saver.clone(), saver);
    let work: [Body; 2] = [
        Box::pin(async move { chain(&writing, 200).await.map(drop) }),
        Box::pin(async move {
            for _ in 0..200 {
                if let Some(checkpoint) = reading.get(&Lookup::head(THREAD, ROOT)).await? {
                    let idx = usize::try_from(checkpoint.header.step + 1).unwrap_or(usize::MAX);
                    same("the values", Value::Object(checkpoint.values), logged(idx))?;
                }
                tokio::task::yield_now().await;
            }
            Ok(())
        }),
    ];
    at_once(work).await.into_iter().collect()
}

async fn prune_meanwhile(saver: Saver) -> Outcome {
    let (writing, pruning) = (saver.clone(), saver.clone());
    let work: [Body; 2] = [
        Box::pin(async move { chain(&writing, 200).await.map(drop) }),
        Box::pin(async move {
            for _ in 0..50 {
                pruning.prune(&[THREAD.to_owned()], Keep::Newest(1)).await?;
                tokio::task::yield_now().await;
            }
            Ok(())
        }),
    ];
    at_once(work).await.into_iter().collect::<Outcome>()?;
    let found = saver.get(&Lookup::head(THREAD, ROOT)).await?;
    same("the values", found.map(|it| Value::Object(it.values)), Some(logged(199)))
}
