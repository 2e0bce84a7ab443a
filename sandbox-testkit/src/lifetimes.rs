//! Checks the creation, expiry and removal of sandboxes.

use std::time::Duration;

use graph_core::StreamMode;
use sandbox_vm::{Error, ExceededLimit, GraphRun, Sandbox, TerminationReason};
use serde_json::{Map, json};
use tokio::time::timeout;

use crate::{
    check::{Check, Failure, TestContext, check, ensure, fail},
    programs::check_usable,
};

pub(crate) const CHECKS: &[Check] = &[
    check!("life: concurrent requests for a name get the same sandbox", unique_name),
    check!("life: sandboxes can be found by label", labels),
    check!("life: guests do not share files", isolated_files),
    check!("life: a sandbox expires after its lifetime", lifetime),
    check!("life: an idle sandbox is removed", idle),
    check!("life: a deleted sandbox reports why it terminated", deleted),
    check!("life: a sandbox can be paused and resumed", [Pause], paused),
    check!("life: an unresponsive guest is removed", [OwnProcesses], unresponsive),
];

async fn unique_name(cx: TestContext) -> Result<(), Failure> {
    let mut creating = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (cx, spec) = (cx.clone(), cx.spec());
        creating.spawn(async move { cx.sandbox(spec).await });
    }
    for created in creating.join_all().await {
        created?.fs().write("mark", "x").await?;
    }
    ensure!(cx.sandboxes.list().len() == 1, "{:?}", cx.sandboxes.list());
    Ok(())
}

async fn labels(cx: TestContext) -> Result<(), Failure> {
    let mut spec = cx.spec().label("ticker", "ACME").label("layer", "sandbox");
    cx.sandbox(spec.clone()).await?;
    spec.name = "other".to_owned();
    cx.sandbox(spec.label("ticker", "OTHER")).await?;
    let found = cx.sandboxes.find_by_label("ticker", "ACME");
    ensure!(found.len() == 1 && found[0].name() == "suite", "{found:?}");
    ensure!(cx.sandboxes.find_by_label("layer", "sandbox").len() == 2, "{:?}", cx.sandboxes.list());
    Ok(())
}

async fn isolated_files(cx: TestContext) -> Result<(), Failure> {
    let first = cx.sandbox(cx.spec()).await?;
    let mut spec = cx.spec();
    spec.name = "other".to_owned();
    let second = cx.sandbox(spec).await?;
    first.fs().write("note", "mine").await?;
    let seen = second.fs().read("note").await;
    ensure!(seen.as_ref().is_err_and(Error::is_not_found), "{seen:?}");
    Ok(())
}

/// Waits until a sandbox has terminated.
async fn wait_for_termination(sandbox: &Sandbox) -> TerminationReason {
    loop {
        if let Some(reason) = sandbox.termination_reason() {
            return reason.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn lifetime(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec().lifetime(Duration::from_millis(500))).await?;
    let reason = wait_for_termination(&sandbox).await;
    ensure!(reason == TerminationReason::Limit(ExceededLimit::Lifetime), "{reason:?}");
    ensure!(cx.sandboxes.list().is_empty(), "the sandbox is still listed");
    Ok(())
}

async fn idle(cx: TestContext) -> Result<(), Failure> {
    let mut spec = cx.spec();
    spec.limits.idle = Duration::from_millis(500);
    let sandbox = cx.sandbox(spec).await?;
    let reason = wait_for_termination(&sandbox).await;
    ensure!(reason == TerminationReason::Limit(ExceededLimit::Idle), "{reason:?}");
    Ok(())
}

async fn deleted(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    sandbox.delete().await;
    sandbox.delete().await;
    let outcome = sandbox.fs().list("").await;
    ensure!(
        matches!(outcome, Err(Error::Terminated { reason: TerminationReason::Deleted, .. })),
        "{outcome:?}"
    );
    check_usable(&cx, &cx.sandbox(cx.spec()).await?).await
}

async fn paused(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let (count, mut n_events) = (2_000, 0);
    let many = Map::from_iter([("events".to_owned(), json!(count))]);
    let run = GraphRun::new("event-burst").input(many).stream_modes([StreamMode::Custom]);
    let mut running = sandbox.run_graph(run).await?;
    sandbox.pause().await?;
    let refused = sandbox.ping().await;
    ensure!(matches!(refused, Err(Error::Paused { .. })), "{refused:?}");
    // Only the events that the guest had sent before it was paused may arrive.
    while let Ok(event) = timeout(Duration::from_millis(500), running.next()).await {
        if event.is_none() {
            return Err(fail("the graph completed while the guest was paused"));
        }
        n_events += 1;
    }
    sandbox.resume().await?;
    while running.next().await.is_some() {
        n_events += 1;
    }
    let _ = running.finish().await?;
    ensure!(n_events == count, "received {n_events} of {count} events");
    check_usable(&cx, &sandbox).await
}

async fn unresponsive(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let run = GraphRun::new("hang").input(Map::new()).timeout(Duration::from_secs(1));
    let outcome = sandbox.run_graph(run).await?.finish().await;
    ensure!(
        outcome.as_ref().is_err_and(|it| it.exceeded_limit() == Some(ExceededLimit::Wall)),
        "{outcome:?}"
    );
    ensure!(cx.sandboxes.get("suite").is_none(), "the sandbox is still alive");
    Ok(())
}
