//! Deleting a thread: all of it goes, and nothing else.

use serde_json::json;

use super::support::*;

checks! {
    "delete_thread: its checkpoints are gone" => checkpoints_gone(),
    "delete_thread: its records are gone" => records_gone(),
    "delete_thread: records without a checkpoint are gone" => early_records_gone(),
    "delete_thread: all its namespaces are gone" => namespaces_gone(),
    "delete_thread: other threads stay" => others_stay(),
    "delete_thread: a thread whose name begins alike stays" => prefix_stays(),
    "delete_thread: an unknown thread is no error" => unknown(),
    "delete_thread: a deleted thread can begin anew" => anew(),
    "delete_thread: a copy stays whole" => copy_stays(),
}

async fn checkpoints_gone(saver: Saver) -> Outcome {
    let chain = chain(&saver, 3).await?;
    saver.delete_thread(THREAD).await?;
    for id in chain {
        absent(&saver, &place(id)).await?;
    }
    same("the head", head(&saver, THREAD, ROOT).await?, None)?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![])?;
    same("the threads", saver.threads().await?, vec![])
}

async fn records_gone(saver: Saver) -> Outcome {
    let draft = first();
    draft.clone().put(&saver).await?;
    saver.record(&draft.0.place, vec![record("a", done(1))]).await?;
    saver.delete_thread(THREAD).await?;
    let id = draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, vec![])
}

async fn early_records_gone(saver: Saver) -> Outcome {
    let draft = first();
    saver.record(&draft.0.place, vec![record("a", done(1))]).await?;
    saver.delete_thread(THREAD).await?;
    let id = draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, vec![])
}

async fn namespaces_gone(saver: Saver) -> Outcome {
    chain(&saver, 1).await?;
    let child = first().namespace("child:1").put(&saver).await?;
    saver.delete_thread(THREAD).await?;
    absent(&saver, &place_in(THREAD, "child:1", child)).await?;
    same("the namespaces", saver.namespaces(THREAD).await?, vec![])
}

async fn others_stay(saver: Saver) -> Outcome {
    chain(&saver, 2).await?;
    let ids = chain_like(&saver, &first().thread("other"), 3).await?;
    let at = place_in("other", ROOT, ids[2]);
    saver.record(&at, vec![record("a", done(1))]).await?;
    saver.delete_thread(THREAD).await?;
    holds_at(&saver, &at, logged(2)).await?;
    same("the records", read_at(&saver, &at).await?.records, vec![record("a", done(1))])
}

async fn prefix_stays(saver: Saver) -> Outcome {
    for thread in ["a", "ab", "a%", "_", "A"] {
        first().thread(thread).put(&saver).await?;
    }
    saver.delete_thread("a").await?;
    saver.delete_thread("_").await?;
    let mut found = saver.threads().await?;
    found.sort();
    same("the threads", found, ["A", "a%", "ab"].map(str::to_owned).into())
}

async fn unknown(saver: Saver) -> Outcome {
    let ids = chain(&saver, 1).await?;
    saver.delete_thread("nobody").await?;
    holds(&saver, ids[0], logged(0)).await
}

async fn anew(saver: Saver) -> Outcome {
    chain(&saver, 3).await?;
    saver.delete_thread(THREAD).await?;
    saver.delete_thread(THREAD).await?;
    let id = first().extend("log", ["new"]).put(&saver).await?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![id])?;
    holds(&saver, id, json!({"log": ["new"]})).await
}

async fn copy_stays(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    saver.copy_thread(THREAD, "copy").await?;
    saver.delete_thread(THREAD).await?;
    holds_at(&saver, &place_in("copy", ROOT, ids[2]), logged(2)).await
}
