//! How sandboxes come and go.

use std::time::Duration;

use super::{Bench, Check, Failure, check, ensure, programs::works};
use crate::{Cause, Error, Gone, GraphRun, protocol::message::Order};

pub(super) const CHECKS: &[Check] = &[
    check!("life: a name has one sandbox, though many ask for it at once", one_of_a_name),
    check!("life: sandboxes are found by their labels", labels),
    check!("life: one guest's files are not another's", apart),
    check!("life: it expires", lifetime),
    check!("life: it is removed when it is idle", idle),
    check!("life: after its end it says why", deleted),
    check!("life: it can be paused", [Pause], paused),
    check!("life: a guest that never answers is removed", [OwnProcesses], silent),
];

async fn one_of_a_name(bench: Bench) -> Result<(), Failure> {
    let mut making = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (bench, spec) = (bench.clone(), bench.spec());
        making.spawn(async move { bench.sandbox(spec).await });
    }
    for made in making.join_all().await {
        made?.fs().write("mark", "x").await?;
    }
    ensure!(bench.sandboxes.list().len() == 1, "{:?}", bench.sandboxes.list());
    Ok(())
}

async fn labels(bench: Bench) -> Result<(), Failure> {
    let mut spec = bench.spec().label("ticker", "ACME").label("layer", "sandbox");
    bench.sandbox(spec.clone()).await?;
    spec.name = "other".to_owned();
    bench.sandbox(spec.label("ticker", "OTHER")).await?;
    let found = bench.sandboxes.find("ticker", "ACME");
    ensure!(found.len() == 1 && found[0].name() == "suite", "{found:?}");
    ensure!(bench.sandboxes.find("layer", "sandbox").len() == 2, "{:?}", bench.sandboxes.list());
    Ok(())
}

async fn apart(bench: Bench) -> Result<(), Failure> {
    let first = bench.sandbox(bench.spec()).await?;
    let mut spec = bench.spec();
    spec.name = "other".to_owned();
    let second = bench.sandbox(spec).await?;
    first.fs().write("note", "mine").await?;
    let seen = second.fs().read("note").await;
    ensure!(seen.as_ref().is_err_and(Error::is_not_found), "{seen:?}");
    Ok(())
}

/// Waits until a sandbox is gone.
async fn gone(sandbox: &crate::Sandbox) -> Gone {
    loop {
        if let Some(gone) = sandbox.gone() {
            return gone.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn lifetime(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec().lifetime(Duration::from_millis(500))).await?;
    let why = gone(&sandbox).await;
    ensure!(why == Gone::Limit(Cause::Lifetime), "{why:?}");
    ensure!(bench.sandboxes.list().is_empty(), "it is still listed");
    Ok(())
}

async fn idle(bench: Bench) -> Result<(), Failure> {
    let mut spec = bench.spec();
    spec.limits.idle = Duration::from_millis(500);
    let sandbox = bench.sandbox(spec).await?;
    let why = gone(&sandbox).await;
    ensure!(why == Gone::Limit(Cause::Idle), "{why:?}");
    Ok(())
}

async fn deleted(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    sandbox.delete().await;
    sandbox.delete().await;
    let outcome = sandbox.fs().list("").await;
    ensure!(matches!(outcome, Err(Error::Gone { why: Gone::Deleted, .. })), "{outcome:?}");
    works(&bench, &bench.sandbox(bench.spec()).await?).await
}

async fn paused(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    sandbox.pause().await?;
    let refused = sandbox.ping().await;
    ensure!(matches!(refused, Err(Error::Paused { .. })), "{refused:?}");
    // Past the door: nobody is there to answer.
    let answer = sandbox.session().ask::<()>(&Order::Ping, Duration::from_millis(500)).await;
    ensure!(answer.is_err(), "it answered while it was paused");
    sandbox.resume().await?;
    works(&bench, &sandbox).await
}

async fn silent(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let run = GraphRun::new("hang").input(serde_json::Map::new()).wall(Duration::from_secs(1));
    let outcome = sandbox.run_graph(run).await?.finish().await;
    ensure!(outcome.as_ref().is_err_and(|it| it.cause() == Some(Cause::Wall)), "{outcome:?}");
    ensure!(bench.sandboxes.get("suite").is_none(), "it still lives");
    Ok(())
}
