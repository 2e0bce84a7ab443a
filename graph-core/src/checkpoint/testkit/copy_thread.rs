//! Copying a thread: the copy is the whole thread, and from then on a thread of its own.

use serde_json::json;

use super::support::*;
use crate::checkpoint::{CheckpointError, CheckpointId, History, Keep, Place};

checks! {
    "copy_thread: all checkpoints are there in order" => all_there(),
    "copy_thread: every checkpoint is as it was" => as_it_was(),
    "copy_thread: the places name the new thread" => places(),
    "copy_thread: all namespaces are there" => namespaces(),
    "copy_thread: the records are there" => records(),
    "copy_thread: forks are there" => forks(),
    "copy_thread: the original stays as it was" => original_stays(),
    "copy_thread: what is put on the copy does not show in the original" => put_on_copy(),
    "copy_thread: what is put on the original does not show in the copy" => put_on_original(),
    "copy_thread: records of the copy are its own" => record_on_copy(),
    "copy_thread: pruning the original leaves the copy whole" => prune_original(),
    "copy_thread: a copy can be copied" => copy_of_copy(),
    "copy_thread: an unknown thread is an error" => unknown(),
    "copy_thread: a deleted thread is unknown" => deleted(),
    "copy_thread: a thread that exists is not written over" => exists(),
    "copy_thread: a thread is not copied to itself" => to_itself(),
    "copy_thread: a deleted thread's name is free" => deleted_name(),
    "copy_thread: a name that was only refused a checkpoint is free" => refused_name(),
    "copy_thread: the name of a thread left empty is free" => emptied_name(),
}

const COPY: &str = "copy";

fn in_copy(id: CheckpointId) -> Place {
    place_in(COPY, ROOT, id)
}

async fn copied(saver: &Saver) -> Outcome<Vec<CheckpointId>> {
    let chain = chain(saver, 4).await?;
    saver.copy_thread(THREAD, COPY).await?;
    Ok(chain)
}

async fn all_there(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    let found = ids(&saver, &History::of(COPY, ROOT)).await?;
    same("the checkpoints", found, reversed(&chain))?;
    same("the head", head(&saver, COPY, ROOT).await?, chain.last().copied())?;
    same("the threads", saver.threads().await?, [COPY, THREAD].map(str::to_owned).into())
}

async fn as_it_was(saver: Saver) -> Outcome {
    let head = first().metadata(json!({"user": "ada"})).set("a", 1).put(&saver).await?;
    let mut draft = after(head).extend("list", [2]).run("later");
    draft.0.cursor.armed = vec!["node".to_owned()];
    let last = draft.put(&saver).await?;
    saver.copy_thread(THREAD, COPY).await?;
    for id in [head, last] {
        let (copy, original) = (read_at(&saver, &in_copy(id)).await?, read(&saver, id).await?);
        same("the header", copy.header, original.header)?;
        same("the cursor", copy.cursor, original.cursor)?;
        same("the values", copy.values, original.values)?;
    }
    holds_at(&saver, &in_copy(last), json!({"a": 1, "list": [2]})).await
}

async fn places(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    let found = saver.list(&History::of(COPY, ROOT)).await?;
    let found: Vec<_> = found.into_iter().map(|it| it.place).collect();
    same("the places", found, chain.into_iter().rev().map(in_copy).collect())
}

async fn namespaces(saver: Saver) -> Outcome {
    chain(&saver, 2).await?;
    let ids = chain_like(&saver, &first().namespace("child:1"), 3).await?;
    saver.copy_thread(THREAD, COPY).await?;
    let expected = [("", 2), ("child:1", 3)].map(|(name, n)| (name.to_owned(), n));
    same("the namespaces", saver.namespaces(COPY).await?, expected.into())?;
    holds_at(&saver, &place_in(COPY, "child:1", ids[2]), logged(2)).await
}

async fn records(saver: Saver) -> Outcome {
    let chain = chain(&saver, 2).await?;
    let records = vec![record("b", done(1)), record("a", effect("k", 2))];
    saver.record(&place(chain[0]), records.clone()).await?;
    saver.copy_thread(THREAD, COPY).await?;
    same("the records", read_at(&saver, &in_copy(chain[0])).await?.records, records)
}

async fn forks(saver: Saver) -> Outcome {
    let base = first().extend("list", [0]).put(&saver).await?;
    let left = after(base).extend("list", [1]).put(&saver).await?;
    let right = after(left).based_on(base).extend("list", [2]).put(&saver).await?;
    saver.copy_thread(THREAD, COPY).await?;
    holds_at(&saver, &in_copy(left), json!({"list": [0, 1]})).await?;
    holds_at(&saver, &in_copy(right), json!({"list": [0, 2]})).await
}

async fn original_stays(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    holds(&saver, chain[3], logged(3)).await
}

async fn put_on_copy(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    let id = after(chain[3]).thread(COPY).extend("log", ["copy"]).put(&saver).await?;
    holds_at(&saver, &in_copy(id), json!({"n": 3, "log": [0, 1, 2, 3, "copy"]})).await?;
    absent(&saver, &place(id)).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(chain[3]))?;
    holds(&saver, chain[3], logged(3)).await
}

async fn put_on_original(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    let id = after(chain[3]).extend("log", ["on"]).put(&saver).await?;
    absent(&saver, &in_copy(id)).await?;
    same("the copy's head", head(&saver, COPY, ROOT).await?, Some(chain[3]))?;
    holds_at(&saver, &in_copy(chain[3]), logged(3)).await
}

async fn record_on_copy(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    saver.record(&in_copy(chain[3]), vec![record("a", done(1))]).await?;
    same("the original's records", read(&saver, chain[3]).await?.records, vec![])?;
    saver.record(&place(chain[3]), vec![record("a", done(2))]).await?;
    let found = read_at(&saver, &in_copy(chain[3])).await?.records;
    same("the copy's records", found, vec![record("a", done(1))])
}

async fn prune_original(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    saver.prune(&[THREAD.to_owned()], Keep::Newest(1)).await?;
    for (idx, id) in chain.into_iter().enumerate() {
        holds_at(&saver, &in_copy(id), logged(idx)).await?;
    }
    Ok(())
}

async fn copy_of_copy(saver: Saver) -> Outcome {
    let chain = copied(&saver).await?;
    saver.copy_thread(COPY, "third").await?;
    saver.delete_thread(COPY).await?;
    holds_at(&saver, &place_in("third", ROOT, chain[3]), logged(3)).await
}

async fn unknown(saver: Saver) -> Outcome {
    refused!(
        saver.copy_thread("nobody", COPY).await,
        CheckpointError::UnknownThread { thread } if thread == "nobody"
    );
    same("the threads", saver.threads().await?, vec![])
}

async fn deleted(saver: Saver) -> Outcome {
    chain(&saver, 1).await?;
    saver.delete_thread(THREAD).await?;
    refused!(saver.copy_thread(THREAD, COPY).await, CheckpointError::UnknownThread { .. });
    Ok(())
}

async fn exists(saver: Saver) -> Outcome {
    chain(&saver, 2).await?;
    let there = chain_like(&saver, &first().thread(COPY), 1).await?;
    refused!(
        saver.copy_thread(THREAD, COPY).await,
        CheckpointError::ThreadExists { thread } if thread == COPY
    );
    same("the checkpoints", ids(&saver, &History::of(COPY, ROOT)).await?, there)
}

async fn to_itself(saver: Saver) -> Outcome {
    let chain = chain(&saver, 2).await?;
    refused!(saver.copy_thread(THREAD, THREAD).await, CheckpointError::ThreadExists { .. });
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))
}

async fn deleted_name(saver: Saver) -> Outcome {
    chain_like(&saver, &first().thread(COPY), 3).await?;
    saver.delete_thread(COPY).await?;
    let chain = copied(&saver).await?;
    same("the checkpoints", ids(&saver, &History::of(COPY, ROOT)).await?, reversed(&chain))
}

async fn refused_name(saver: Saver) -> Outcome {
    let draft = first().thread(COPY).expecting(CheckpointId::next());
    refused!(draft.put(&saver).await, CheckpointError::HeadMoved { .. });
    refused!(saver.copy_thread(COPY, "third").await, CheckpointError::UnknownThread { .. });
    copied(&saver).await?;
    Ok(())
}

async fn emptied_name(saver: Saver) -> Outcome {
    first().thread(COPY).run("gone").put(&saver).await?;
    saver.delete_runs(&["gone".to_owned()]).await?;
    refused!(saver.copy_thread(COPY, "third").await, CheckpointError::UnknownThread { .. });
    copied(&saver).await?;
    Ok(())
}
