//! The lease: only one run at a time may work on a thread.

use std::time::Duration;

use graph_core::checkpoint::{CheckpointError, Lease};

use super::support::*;

checks! {
    "lease: a thread that does not exist can be leased" => of_unknown(),
    "lease: a second lease is rejected" => second(),
    "lease: a rejected attempt does not end the lease" => still_held(),
    "lease: dropping the lease releases the thread" => released_on_drop(),
    "lease: a thread can be leased repeatedly" => repeatedly(),
    "lease: other threads are not affected" => others_unaffected(),
    "lease: a lease creates no thread" => creates_no_thread(),
    "lease: the holder can read and write" => holder_access(),
    "lease: the head check applies to the holder" => head_check(),
    "lease: readers need no lease" => readers(),
}

async fn of_unknown(saver: Saver) -> CheckResult {
    saver.lease("new").await?;
    Ok(())
}

async fn second(saver: Saver) -> CheckResult {
    let lease = saver.lease(THREAD).await?;
    expect_err!(saver.lease(THREAD).await, CheckpointError::Busy { thread } if thread == THREAD);
    drop(lease);
    Ok(())
}

async fn still_held(saver: Saver) -> CheckResult {
    let lease = saver.lease(THREAD).await?;
    for _ in 0..3 {
        expect_err!(saver.lease(THREAD).await, CheckpointError::Busy { .. });
    }
    drop(lease);
    Ok(())
}

async fn released_on_drop(saver: Saver) -> CheckResult {
    drop(saver.lease(THREAD).await?);
    let _lease = lease_eventually(&saver, THREAD).await?;
    expect_err!(saver.lease(THREAD).await, CheckpointError::Busy { .. });
    Ok(())
}

async fn repeatedly(saver: Saver) -> CheckResult {
    for _ in 0..20 {
        drop(lease_eventually(&saver, THREAD).await?);
    }
    Ok(())
}

async fn others_unaffected(saver: Saver) -> CheckResult {
    let one = saver.lease("one").await?;
    let two = saver.lease("two").await?;
    drop(one);
    let _one = lease_eventually(&saver, "one").await?;
    expect_err!(saver.lease("two").await, CheckpointError::Busy { thread } if thread == "two");
    drop(two);
    Ok(())
}

async fn creates_no_thread(saver: Saver) -> CheckResult {
    let _lease = saver.lease(THREAD).await?;
    expect_eq("the threads", saver.threads().await?, vec![])?;
    first().put(&saver).await?;
    Ok(())
}

async fn holder_access(saver: Saver) -> CheckResult {
    let _lease = saver.lease(THREAD).await?;
    let ids = chain(&saver, 2).await?;
    saver.record(&key(ids[1]), vec![record("a", done(1))]).await?;
    expect_values(&saver, ids[1], chain_values(1)).await
}

async fn head_check(saver: Saver) -> CheckResult {
    let _lease = saver.lease(THREAD).await?;
    let ids = chain(&saver, 2).await?;
    expect_err!(after(ids[0]).put(&saver).await, CheckpointError::HeadMoved { .. });
    Ok(())
}

async fn readers(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 2).await?;
    let _lease = saver.lease(THREAD).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(chain[1]))?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))
}

/// Leases the thread. Retries until the check times out, because a saver may release an earlier lease in the
/// background.
async fn lease_eventually(saver: &Saver, thread: &str) -> Result<Lease, CheckpointError> {
    loop {
        match saver.lease(thread).await {
            Err(CheckpointError::Busy { .. }) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            result => return result,
        }
    }
}
