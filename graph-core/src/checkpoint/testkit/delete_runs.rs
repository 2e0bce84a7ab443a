//! Deleting runs: what they wrote goes everywhere, and what others wrote stays whole.

use serde_json::json;

use super::support::*;
use crate::checkpoint::CheckpointId;

checks! {
    "delete_runs: the run's checkpoints are gone" => one_run(),
    "delete_runs: several runs go at once" => several_runs(),
    "delete_runs: it reaches all threads and namespaces" => everywhere(),
    "delete_runs: its records are gone" => records_gone(),
    "delete_runs: records of other runs' checkpoints stay" => records_stay(),
    "delete_runs: records that wait for their checkpoint stay" => early_records_stay(),
    "delete_runs: no runs is nothing to do" => nothing(&[]),
    "delete_runs: an unknown run is nothing to do" => nothing(&["nobody", "", "ru", "run1", "RUN"]),
    "delete_runs: a checkpoint whose base is gone reads whole" => kept_whole(),
    "delete_runs: a branch stays whole without its base" => branch_stays(),
    "delete_runs: the head falls back to what is left" => head_falls_back(),
    "delete_runs: a thread left empty is gone" => left_empty(),
}

/// Two checkpoints each of the runs `a`, `b` and `c`, one upon the other.
async fn three_runs(saver: &Saver) -> Outcome<Vec<CheckpointId>> {
    let mut chain: Vec<CheckpointId> = Vec::new();
    for (idx, run) in ["a", "a", "b", "b", "c", "c"].into_iter().enumerate() {
        let draft = chain.last().map_or_else(first, |head| after(*head));
        let draft = draft.run(run).set("n", idx).extend("log", [idx]);
        chain.push(draft.put(saver).await?);
    }
    Ok(chain)
}

async fn delete(saver: &Saver, runs: &[&str]) -> Outcome {
    let runs: Vec<_> = runs.iter().map(|it| (*it).to_owned()).collect();
    Ok(saver.delete_runs(&runs).await?)
}

async fn one_run(saver: Saver) -> Outcome {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["b"]).await?;
    absent(&saver, &place(chain[2])).await?;
    let left = [chain[5], chain[4], chain[1], chain[0]];
    same("the checkpoints", ids(&saver, &history()).await?, left.into())
}

async fn several_runs(saver: Saver) -> Outcome {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["a", "c"]).await?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![chain[3], chain[2]])
}

async fn everywhere(saver: Saver) -> Outcome {
    for draft in [first(), first().thread("other"), first().namespace("child:1")] {
        let place = draft.0.place.clone();
        let id = draft.run("a").put(&saver).await?;
        let next = after(id).thread(&place.thread).namespace(&place.namespace).run("b");
        next.put(&saver).await?;
    }
    delete(&saver, &["b"]).await?;
    same("the namespaces", saver.namespaces("other").await?, vec![(ROOT.to_owned(), 1)])?;
    let both = [(ROOT.to_owned(), 1), ("child:1".to_owned(), 1)];
    same("the namespaces", saver.namespaces(THREAD).await?, both.into())
}

async fn records_gone(saver: Saver) -> Outcome {
    let draft = first().run("a");
    draft.clone().put(&saver).await?;
    saver.record(&draft.0.place, vec![record("t", done(1))]).await?;
    delete(&saver, &["a"]).await?;
    let id = draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, vec![])
}

async fn records_stay(saver: Saver) -> Outcome {
    let chain = three_runs(&saver).await?;
    saver.record(&place(chain[1]), vec![record("t", done(1))]).await?;
    delete(&saver, &["b"]).await?;
    same("the records", read(&saver, chain[1]).await?.records, vec![record("t", done(1))])
}

/// Another run may be at work meanwhile.
async fn early_records_stay(saver: Saver) -> Outcome {
    first().thread("other").run("b").put(&saver).await?;
    let head = first().run("a").put(&saver).await?;
    let draft = after(head).run("a");
    saver.record(&draft.0.place, vec![record("t", done(1))]).await?;
    delete(&saver, &["b"]).await?;
    let id = draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, vec![record("t", done(1))])
}

async fn nothing(saver: Saver, runs: &[&str]) -> Outcome {
    let chain = chain(&saver, 3).await?;
    delete(&saver, runs).await?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    holds(&saver, chain[2], logged(2)).await
}

async fn kept_whole(saver: Saver) -> Outcome {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["a", "b"]).await?;
    holds(&saver, chain[5], logged(5)).await?;
    holds(&saver, chain[4], logged(4)).await
}

async fn branch_stays(saver: Saver) -> Outcome {
    let base = first().run("a").extend("list", [0]).put(&saver).await?;
    let left = after(base).run("b").extend("list", [1]).put(&saver).await?;
    let right = after(left).based_on(base).run("c").extend("list", [2]).put(&saver).await?;
    delete(&saver, &["a", "b"]).await?;
    absent(&saver, &place(left)).await?;
    holds(&saver, right, json!({"list": [0, 2]})).await
}

async fn head_falls_back(saver: Saver) -> Outcome {
    let chain = three_runs(&saver).await?;
    delete(&saver, &["b", "c"]).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(chain[1]))?;
    let id = after(chain[1]).extend("log", ["on"]).put(&saver).await?;
    holds(&saver, id, json!({"n": 1, "log": [0, 1, "on"]})).await
}

async fn left_empty(saver: Saver) -> Outcome {
    first().run("a").put(&saver).await?;
    delete(&saver, &["a"]).await?;
    same("the threads", saver.threads().await?, vec![])?;
    same("the namespaces", saver.namespaces(THREAD).await?, vec![])?;
    first().put(&saver).await?;
    Ok(())
}
