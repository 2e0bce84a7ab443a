//! Pruning: old checkpoints go, the newest never, and what is kept reads whole.

use serde_json::json;

use super::support::*;
use crate::checkpoint::{Change, CheckpointError, CheckpointId, History, Keep, Pruned};

checks! {
    "prune: the newest one is kept" => keeps(Keep::Newest(1), 1),
    "prune: the newest three are kept" => keeps(Keep::Newest(3), 3),
    "prune: the newest none still keeps one" => keeps(Keep::Newest(0), 1),
    "prune: the newest more than there are keeps all" => keeps(Keep::Newest(100), 5),
    "prune: the newest of any number keeps all" => keeps(Keep::Newest(usize::MAX), 5),
    "prune: those made since a time are kept, that moment included" => keeps(Keep::Since(time(1_030)), 2),
    "prune: the newest is kept though it is too old" => keeps(Keep::Since(time(9_999)), 1),
    "prune: a time before all keeps all" => keeps(Keep::Since(time(0)), 5),
    "prune: a second time there is nothing left to do" => twice(),
    "prune: several threads go at once and are counted together" => several_threads(),
    "prune: each namespace keeps its own" => each_namespace(),
    "prune: other threads are left alone" => others_stay(),
    "prune: no threads is nothing to do" => nothing(&[]),
    "prune: an unknown thread is nothing to do" => nothing(&["nobody"]),
    "prune: a kept checkpoint whose base is gone reads whole" => kept_whole(),
    "prune: a kept checkpoint reads whole whatever kind of change was pruned" => all_kinds(),
    "prune: a value set long ago is kept" => set_long_ago(),
    "prune: two branches survive the base they share" => forks_survive(),
    "prune: age decides, not the order of steps" => by_age(),
    "prune: records of kept checkpoints stay" => records_stay(),
    "prune: records that wait for their checkpoint stay" => early_records_stay(),
    "prune: the thread goes on" => goes_on(),
    "prune: a pruned checkpoint is no head to build on" => pruned_head(),
    "prune: after every step the thread still reads whole" => after_every_step(),
    "prune: the header still names the pruned parent" => parent_stays(),
    "prune: a graph whose visit's step is gone goes with it" => visits_go(),
    "prune: a graph whose visit's step is on its way stays" => coming_visits_stay(),
    "prune: a graph that belongs to the thread stays" => thread_graphs_stay(),
}

/// Two checkpoints of a graph inside, visited in a step of the root.
async fn visit(saver: &Saver, namespace: &str, step: CheckpointId) -> Outcome<CheckpointId> {
    let inside = |draft: Draft| {
        let parents = [(ROOT.to_owned(), step)];
        draft.namespace(namespace).header(|it| it.parents = parents.into()).set("x", 1)
    };
    let begun = inside(first()).put(saver).await?;
    Ok(inside(after(begun)).put(saver).await?)
}

async fn visits_go(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    let old = visit(&saver, "inside:1", chain[0]).await?;
    let deep = visit(&saver, "inside:1|deeper:2", chain[0]).await?;
    let kept = visit(&saver, "inside:3", chain[4]).await?;
    // Four of the root, one of each graph by its own age, and one more of each whose step is gone.
    same("how many were pruned", prune(&saver, &[THREAD], Keep::Newest(1)).await?, 4 + 3 + 2)?;
    absent(&saver, &place_in(THREAD, "inside:1", old)).await?;
    absent(&saver, &place_in(THREAD, "inside:1|deeper:2", deep)).await?;
    holds_at(&saver, &place_in(THREAD, "inside:3", kept), json!({"x": 1})).await?;
    let left = saver.namespaces(THREAD).await?;
    same("the namespaces", left, vec![(ROOT.to_owned(), 1), ("inside:3".to_owned(), 1)])
}

async fn coming_visits_stay(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    let coming = CheckpointId::after(chain.last().copied());
    let inside = visit(&saver, "inside:1", coming).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    holds_at(&saver, &place_in(THREAD, "inside:1", inside), json!({"x": 1})).await
}

async fn thread_graphs_stay(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    let inside = visit(&saver, "inside", chain[0]).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    holds_at(&saver, &place_in(THREAD, "inside", inside), json!({"x": 1})).await
}

/// Five checkpoints, made ten seconds apart from 1,000 on.
async fn five(saver: &Saver) -> Outcome<Vec<CheckpointId>> {
    let mut chain: Vec<CheckpointId> = Vec::new();
    for (idx, made_at) in (1_000..1_050).step_by(10).enumerate() {
        let draft = chain.last().map_or_else(first, |head| after(*head)).made_at(made_at);
        chain.push(draft.set("n", idx).extend("log", [idx]).put(saver).await?);
    }
    Ok(chain)
}

async fn prune(saver: &Saver, threads: &[&str], keep: Keep) -> Outcome<usize> {
    let threads: Vec<_> = threads.iter().map(|it| (*it).to_owned()).collect();
    let Pruned { checkpoints, .. } = saver.prune(&threads, keep).await?;
    Ok(checkpoints)
}

async fn keeps(saver: Saver, keep: Keep, n: usize) -> Outcome {
    let chain = five(&saver).await?;
    same("how many were pruned", prune(&saver, &[THREAD], keep).await?, 5 - n)?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain[5 - n..]))?;
    for (idx, id) in chain.into_iter().enumerate() {
        if idx < 5 - n {
            absent(&saver, &place(id)).await?;
        } else {
            holds(&saver, id, logged(idx)).await?;
        }
    }
    Ok(())
}

async fn twice(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    same("how many were pruned", prune(&saver, &[THREAD], Keep::Newest(2)).await?, 0)?;
    holds(&saver, chain[4], logged(4)).await
}

async fn several_threads(saver: Saver) -> Outcome {
    for (thread, n) in [("a", 4), ("b", 1), ("c", 3)] {
        chain_like(&saver, &first().thread(thread), n).await?;
    }
    same("how many were pruned", prune(&saver, &["a", "b", "c"], Keep::Newest(1)).await?, 5)?;
    for thread in ["a", "b", "c"] {
        same("the namespaces", saver.namespaces(thread).await?, vec![(ROOT.to_owned(), 1)])?;
    }
    Ok(())
}

async fn each_namespace(saver: Saver) -> Outcome {
    chain(&saver, 4).await?;
    let ids = chain_like(&saver, &first().namespace("child:1"), 3).await?;
    chain_like(&saver, &first().namespace("child:2"), 1).await?;
    same("how many were pruned", prune(&saver, &[THREAD], Keep::Newest(2)).await?, 3)?;
    let expected = [("", 2), ("child:1", 2), ("child:2", 1)].map(|(name, n)| (name.to_owned(), n));
    same("the namespaces", saver.namespaces(THREAD).await?, expected.into())?;
    holds_at(&saver, &place_in(THREAD, "child:1", ids[2]), logged(2)).await
}

async fn others_stay(saver: Saver) -> Outcome {
    five(&saver).await?;
    let other = chain_like(&saver, &first().thread("other"), 3).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    same("the checkpoints", ids(&saver, &History::of("other", ROOT)).await?, reversed(&other))
}

async fn nothing(saver: Saver, threads: &[&str]) -> Outcome {
    let chain = five(&saver).await?;
    same("how many were pruned", prune(&saver, threads, Keep::Newest(1)).await?, 0)?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    same("the threads", saver.threads().await?, vec![THREAD.to_owned()])
}

async fn kept_whole(saver: Saver) -> Outcome {
    let chain = chain(&saver, 50).await?;
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    holds(&saver, chain[49], logged(49)).await?;
    holds(&saver, chain[48], logged(48)).await
}

async fn all_kinds(saver: Saver) -> Outcome {
    let id = first().extend("list", [0, 1]).merge("map", json!({"a": 1})).set("gone", 1);
    let id = id.put(&saver).await?;
    let id = after(id).change("list", Change::Put(vec![(0, json!("zero"))]));
    let id = id.merge("map", json!({"b": 2})).change("gone", Change::Clear).put(&saver).await?;
    let id = after(id).extend("list", [2]).merge("map", json!({"a": 3})).put(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    holds(&saver, id, json!({"list": ["zero", 1, 2], "map": {"a": 3, "b": 2}})).await
}

async fn set_long_ago(saver: Saver) -> Outcome {
    let mut head = first().set("old", "kept").put(&saver).await?;
    for n in 0..20 {
        head = after(head).set("n", n).put(&saver).await?;
    }
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    holds(&saver, head, json!({"old": "kept", "n": 19})).await
}

async fn forks_survive(saver: Saver) -> Outcome {
    let base = first().extend("list", [0]).set("a", 1).put(&saver).await?;
    let left = after(base).extend("list", [1]).put(&saver).await?;
    let right = after(left).based_on(base).extend("list", [2]).put(&saver).await?;
    same("how many were pruned", prune(&saver, &[THREAD], Keep::Newest(2)).await?, 1)?;
    absent(&saver, &place(base)).await?;
    holds(&saver, left, json!({"list": [0, 1], "a": 1})).await?;
    holds(&saver, right, json!({"list": [0, 2], "a": 1})).await?;
    let next = after(right).based_on(left).extend("list", [3]).put(&saver).await?;
    holds(&saver, next, json!({"list": [0, 1, 3], "a": 1})).await
}

/// A fork starts counting steps again.
async fn by_age(saver: Saver) -> Outcome {
    let chain = chain(&saver, 4).await?;
    let draft = after(chain[3]).based_on(chain[0]).header(|it| it.step = 0);
    let fork = draft.put(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![fork, chain[3]])
}

async fn records_stay(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    for id in &chain {
        saver.record(&place(*id), vec![record("a", done(1))]).await?;
    }
    prune(&saver, &[THREAD], Keep::Newest(2)).await?;
    for id in &chain[3..] {
        same("the records", read(&saver, *id).await?.records, vec![record("a", done(1))])?;
    }
    Ok(())
}

/// A run may be at work while somebody prunes.
async fn early_records_stay(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    let draft = after(chain[4]);
    saver.record(&draft.0.place, vec![record("a", done(1))]).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    let id = draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, vec![record("a", done(1))])
}

async fn goes_on(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(chain[4]))?;
    let id = after(chain[4]).set("n", 5).extend("log", [5]).put(&saver).await?;
    holds(&saver, id, logged(5)).await
}

async fn pruned_head(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    refused!(after(chain[3]).put(&saver).await, CheckpointError::HeadMoved { .. });
    Ok(())
}

async fn after_every_step(saver: Saver) -> Outcome {
    let mut head = first().set("n", 0).extend("log", [0]).put(&saver).await?;
    for n in 1..30 {
        head = after(head).set("n", n).extend("log", [n]).put(&saver).await?;
        prune(&saver, &[THREAD], Keep::Newest(1)).await?;
        holds(&saver, head, logged(n)).await?;
    }
    Ok(())
}

async fn parent_stays(saver: Saver) -> Outcome {
    let chain = five(&saver).await?;
    prune(&saver, &[THREAD], Keep::Newest(1)).await?;
    same("the parent", read(&saver, chain[4]).await?.header.parent, Some(chain[3]))
}
