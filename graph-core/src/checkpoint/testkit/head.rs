//! The head check: a checkpoint is stored only on the head that its writer knows.

use serde_json::json;

use super::support::*;
use crate::checkpoint::{CheckpointError, CheckpointId};

checks! {
    "head check: a namespace begins without a head" => begins(),
    "head check: a second beginning is refused" => second_beginning(),
    "head check: a head that never was is refused" => unknown_head(),
    "head check: a writer who knows an older head is refused" => older_head(),
    "head check: a refused checkpoint leaves nothing behind" => leaves_nothing(),
    "head check: a refused beginning makes no thread" => makes_no_thread(),
    "head check: a refused writer may try again on the new head" => tries_again(),
    "head check: every namespace has its own head" => apart(first().namespace("child:1")),
    "head check: every thread has its own head" => apart(first().thread("other")),
    "head check: the head is expected, not the base" => base_apart(),
}

async fn begins(saver: Saver) -> Outcome {
    same("the head", head(&saver, THREAD, ROOT).await?, None)?;
    let id = first().put(&saver).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(id))
}

async fn second_beginning(saver: Saver) -> Outcome {
    first().put(&saver).await?;
    refused!(first().put(&saver).await, CheckpointError::HeadMoved { thread } if thread == THREAD);
    Ok(())
}

async fn unknown_head(saver: Saver) -> Outcome {
    let draft = first().expecting(CheckpointId::next());
    refused!(draft.put(&saver).await, CheckpointError::HeadMoved { thread } if thread == THREAD);
    Ok(())
}

async fn older_head(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    for older in &ids[..2] {
        refused!(
            after(*older).put(&saver).await,
            CheckpointError::HeadMoved { thread } if thread == THREAD
        );
    }
    Ok(())
}

async fn leaves_nothing(saver: Saver) -> Outcome {
    let chain = chain(&saver, 2).await?;
    let late = after(chain[0]).set("n", "late").extend("log", ["late"]);
    refused!(saver.put(late.0.clone()).await, CheckpointError::HeadMoved { .. });
    absent(&saver, &late.0.place).await?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    holds(&saver, chain[1], logged(1)).await
}

async fn makes_no_thread(saver: Saver) -> Outcome {
    let draft = first().expecting(CheckpointId::next());
    refused!(draft.put(&saver).await, CheckpointError::HeadMoved { .. });
    same("the threads", saver.threads().await?, vec![])?;
    same("the namespaces", saver.namespaces(THREAD).await?, vec![])
}

async fn tries_again(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    let mut draft = after(ids[0]).extend("log", ["late"]);
    refused!(saver.put(draft.0.clone()).await, CheckpointError::HeadMoved { .. });
    draft = draft.expecting(ids[1]).based_on(ids[1]);
    let id = draft.put(&saver).await?;
    holds(&saver, id, json!({"n": 1, "log": [0, 1, "late"]})).await
}

async fn apart(saver: Saver, elsewhere: Draft) -> Outcome {
    let here = first().put(&saver).await?;
    let place = elsewhere.0.place.clone();
    let there = elsewhere.put(&saver).await?;
    after(here).put(&saver).await?;
    same("the other head", head(&saver, &place.thread, &place.namespace).await?, Some(there))?;
    let next = after(there).thread(&place.thread).namespace(&place.namespace).put(&saver).await?;
    same("the other head", head(&saver, &place.thread, &place.namespace).await?, Some(next))
}

async fn base_apart(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let id = after(ids[2]).based_on(ids[0]).put(&saver).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(id))?;
    holds(&saver, id, logged(0)).await
}
