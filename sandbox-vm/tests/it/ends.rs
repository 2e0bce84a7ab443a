//! How sandboxes end: each by itself, and though nobody waits for it.

use std::{future::pending, time::Duration};

use async_trait::async_trait;
use sandbox_vm::{
    Cause, Error, Gone, GraphRun, Sandbox, Spec,
    backend::{Backend, Guest, Handle, InProcess, Jail},
    berth::Berth,
    report::Report,
    testkit,
};
use tokio::time::timeout;

use crate::{
    HOSTILE,
    altered::{self, Habit},
    pool::until,
    sandboxes,
};

/// A back end whose guests of the name `stuck` never end.
#[derive(Debug)]
struct Stuck(InProcess);

#[async_trait]
impl Backend for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    async fn probe(&self) -> Report {
        self.0.probe().await
    }

    async fn start(&self, spec: &Spec, berth: &Berth) -> Result<Guest, Error> {
        let guest = self.0.start(spec, berth).await?;
        Ok(if spec.name == "stuck" { altered::with(Endless, guest) } else { guest })
    }
}

#[derive(Debug)]
struct Endless;

#[async_trait]
impl Habit for Endless {
    async fn kill(&self, _: &dyn Handle) {
        pending().await
    }
}

async fn until_gone(sandbox: &Sandbox) -> Gone {
    let gone = until(|| sandbox.gone().is_some());
    timeout(Duration::from_secs(20), gone).await.expect("it lives on");
    sandbox.gone().unwrap().clone()
}

#[tokio::test]
async fn a_guest_that_does_not_end_keeps_no_other_from_ending() {
    let (sandboxes, _folder) = sandboxes(Stuck(InProcess::new(testkit::agent))).await;
    let soon = Duration::from_millis(300);
    for name in ["stuck", "well"] {
        sandboxes.create_if_not_exists(Spec::new(name).lifetime(soon)).await.unwrap();
    }
    let well = sandboxes.get("well").unwrap();
    assert_eq!(until_gone(&well).await, Gone::Limit(Cause::Lifetime));
    until(|| sandboxes.list().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_deletes_a_guest_that_does_not_end_waits_for_a_minute_at_most() {
    let (sandboxes, folder) = sandboxes(Stuck(InProcess::new(testkit::agent))).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("stuck")).await.unwrap();
    timeout(Duration::from_secs(90), sandbox.delete()).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("state")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_sandbox_expires_though_all_others_are_dropped() {
    let (sandboxes, folder) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = |name: &str| Spec::new(name).lifetime(Duration::from_secs(1));
    let held = sandboxes.create_if_not_exists(spec("held")).await.unwrap();
    sandboxes.create_if_not_exists(spec("not-held").lifetime(Duration::MAX)).await.unwrap();
    drop(sandboxes);
    let state = folder.path().join("state");
    let berths = || std::fs::read_dir(&state).unwrap().count();
    until(|| berths() == 1).await;
    held.ping().await.unwrap();
    assert_eq!(until_gone(&held).await, Gone::Limit(Cause::Lifetime));
    until(|| berths() == 0).await;
}

#[tokio::test]
async fn a_run_that_takes_too_long_ends_its_sandbox_though_nobody_finishes_it() {
    let (sandboxes, _folder) = sandboxes(Jail::program(HOSTILE)).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    let run = GraphRun::new("hang").input(serde_json::Map::new()).wall(Duration::from_millis(300));
    let mut running = sandbox.run_graph(run).await.unwrap();
    while running.next().await.is_some() {}
    drop(running);
    assert_eq!(sandbox.gone(), Some(&Gone::Limit(Cause::Wall)));
}
