//! The lease: one run at a time works on a thread.

use std::time::Duration;

use super::support::*;
use crate::checkpoint::{CheckpointError, Lease};

checks! {
    "lease: a thread that does not exist yet can be taken" => of_unknown(),
    "lease: a second taker is refused" => second(),
    "lease: a refused taker does not end the lease" => third(),
    "lease: the thread is free once the lease is dropped" => free_after_drop(),
    "lease: the thread can be taken over and over" => over_and_over(),
    "lease: other threads are free" => others_free(),
    "lease: a lease makes no thread" => makes_no_thread(),
    "lease: the holder reads and writes" => holder_writes(),
    "lease: the head check holds under a lease" => head_check(),
    "lease: readers need none" => readers(),
}

async fn of_unknown(saver: Saver) -> Outcome {
    saver.lease("new").await?;
    Ok(())
}

async fn second(saver: Saver) -> Outcome {
    let lease = saver.lease(THREAD).await?;
    refused!(saver.lease(THREAD).await, CheckpointError::Busy { thread } if thread == THREAD);
    drop(lease);
    Ok(())
}

async fn third(saver: Saver) -> Outcome {
    let lease = saver.lease(THREAD).await?;
    for _ in 0..3 {
        refused!(saver.lease(THREAD).await, CheckpointError::Busy { .. });
    }
    drop(lease);
    Ok(())
}

async fn free_after_drop(saver: Saver) -> Outcome {
    drop(saver.lease(THREAD).await?);
    let _lease = take(&saver, THREAD).await?;
    refused!(saver.lease(THREAD).await, CheckpointError::Busy { .. });
    Ok(())
}

async fn over_and_over(saver: Saver) -> Outcome {
    for _ in 0..20 {
        drop(take(&saver, THREAD).await?);
    }
    Ok(())
}

async fn others_free(saver: Saver) -> Outcome {
    let one = saver.lease("one").await?;
    let two = saver.lease("two").await?;
    drop(one);
    let _one = take(&saver, "one").await?;
    refused!(saver.lease("two").await, CheckpointError::Busy { thread } if thread == "two");
    drop(two);
    Ok(())
}

async fn makes_no_thread(saver: Saver) -> Outcome {
    let _lease = saver.lease(THREAD).await?;
    same("the threads", saver.threads().await?, vec![])?;
    first().put(&saver).await?;
    Ok(())
}

async fn holder_writes(saver: Saver) -> Outcome {
    let _lease = saver.lease(THREAD).await?;
    let ids = chain(&saver, 2).await?;
    saver.record(&place(ids[1]), vec![record("a", done(1))]).await?;
    holds(&saver, ids[1], logged(1)).await
}

async fn head_check(saver: Saver) -> Outcome {
    let _lease = saver.lease(THREAD).await?;
    let ids = chain(&saver, 2).await?;
    refused!(after(ids[0]).put(&saver).await, CheckpointError::HeadMoved { .. });
    Ok(())
}

async fn readers(saver: Saver) -> Outcome {
    let chain = chain(&saver, 2).await?;
    let _lease = saver.lease(THREAD).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(chain[1]))?;
    same("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))
}

/// Takes the thread, a little later if need be: a saver may give it free in the background.
async fn take(saver: &Saver, thread: &str) -> Result<Lease, CheckpointError> {
    for _ in 0..200 {
        match saver.lease(thread).await {
            Err(CheckpointError::Busy { .. }) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer,
        }
    }
    saver.lease(thread).await
}
