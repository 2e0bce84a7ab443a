//! The head check: a checkpoint is stored only if its writer knows the current head.

use graph_core::checkpoint::{CheckpointError, CheckpointId};
use serde_json::json;

use super::support::*;

checks! {
    "head check: a new namespace has no head" => new_namespace(),
    "head check: a second initial checkpoint is rejected" => second_initial(),
    "head check: an unknown head is rejected" => unknown_head(),
    "head check: a writer with a stale head is rejected" => older_head(),
    "head check: a rejected checkpoint leaves no trace" => leaves_no_trace(),
    "head check: a rejected initial checkpoint creates no thread" => creates_no_thread(),
    "head check: a rejected writer can retry on the new head" => retries(),
    "head check: every namespace has its own head" => apart(first().namespace("child:1")),
    "head check: every thread has its own head" => apart(first().thread("other")),
    "head check: the expected head may differ from the base" => base_apart(),
}

async fn new_namespace(saver: Saver) -> CheckResult {
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, None)?;
    let id = first().put(&saver).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(id))
}

async fn second_initial(saver: Saver) -> CheckResult {
    first().put(&saver).await?;
    expect_err!(first().put(&saver).await, CheckpointError::HeadMoved { thread } if thread == THREAD);
    Ok(())
}

async fn unknown_head(saver: Saver) -> CheckResult {
    let draft = first().expecting(CheckpointId::next());
    expect_err!(draft.put(&saver).await, CheckpointError::HeadMoved { thread } if thread == THREAD);
    Ok(())
}

async fn older_head(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    for older in &ids[..2] {
        expect_err!(
            after(*older).put(&saver).await,
            CheckpointError::HeadMoved { thread } if thread == THREAD
        );
    }
    Ok(())
}

async fn leaves_no_trace(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 2).await?;
    let late = after(chain[0]).set("n", "late").extend("log", ["late"]);
    expect_err!(saver.put(late.0.clone()).await, CheckpointError::HeadMoved { .. });
    expect_absent(&saver, &late.0.key).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, reversed(&chain))?;
    expect_values(&saver, chain[1], chain_values(1)).await
}

async fn creates_no_thread(saver: Saver) -> CheckResult {
    let draft = first().expecting(CheckpointId::next());
    expect_err!(draft.put(&saver).await, CheckpointError::HeadMoved { .. });
    expect_eq("the threads", saver.threads().await?, vec![])?;
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, vec![])
}

async fn retries(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    let mut draft = after(ids[0]).extend("log", ["late"]);
    expect_err!(saver.put(draft.0.clone()).await, CheckpointError::HeadMoved { .. });
    draft = draft.expecting(ids[1]).based_on(ids[1]);
    let id = draft.put(&saver).await?;
    expect_values(&saver, id, json!({"n": 1, "log": [0, 1, "late"]})).await
}

async fn apart(saver: Saver, elsewhere: Draft) -> CheckResult {
    let here = first().put(&saver).await?;
    let key = elsewhere.0.key.clone();
    let there = elsewhere.put(&saver).await?;
    after(here).put(&saver).await?;
    expect_eq("the other head", head(&saver, &key.thread, &key.namespace).await?, Some(there))?;
    let next = after(there).thread(&key.thread).namespace(&key.namespace).put(&saver).await?;
    expect_eq("the other head", head(&saver, &key.thread, &key.namespace).await?, Some(next))
}

async fn base_apart(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let id = after(ids[2]).based_on(ids[0]).put(&saver).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(id))?;
    expect_values(&saver, id, chain_values(0)).await
}
