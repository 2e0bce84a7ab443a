//! Scenarios that every scheduler must pass.

use graph_cluster::{ClusterError, RunStatus};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    local::{self, JobSpec, comparable},
};

const SMALL: JobSpec = JobSpec { rounds: 2, width: 3, pause_ms: 5, ask: false };

pub(crate) async fn result_and_events_equal_a_local_run(cluster: &Cluster) {
    let _workers = (cluster.worker().await, cluster.worker().await);
    let request = SMALL.request("r", "thread / ü");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    let received = check_events(cluster, "r", expected.events).await;
    cluster.check_values("r", &expected.values).await;
    // A reader that reconnects continues where it stopped.
    let mut rest = cluster.client.events("r", 3);
    for expected in &received[3..] {
        let event = rest.next().await.expect("the database is running").expect("more events");
        assert_eq!(event.node, expected.0);
    }
    assert!(rest.next().await.expect("the database is running").is_none());
}

/// The reader has read one event when the run ends.
pub(crate) async fn run_does_not_wait_for_a_reader(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let request = JobSpec { rounds: 20, width: 3, pause_ms: 0, ask: false }.request("r", "t");
    cluster.client.start(&request).await.expect("the run starts");
    let mut events = cluster.client.events("r", 0);
    assert!(events.next().await.expect("the database is running").is_some());
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Done, "{run:?}");
    let mut n_read = 1;
    while let Some(event) = events.next().await.expect("the database is running") {
        assert_eq!(event.seq, n_read);
        n_read += 1;
    }
    let stored = cluster.sql("SELECT count(*) FROM graph_cluster.event WHERE run = 'r'");
    assert_eq!(n_read.to_string(), stored);
}

/// Node and data of each event, in order.
type Events = Vec<(Option<String>, Value)>;

/// Reads all events of a run and compares them with those of a local run.
pub(crate) async fn check_events(cluster: &Cluster, run: &str, expected: Events) -> Events {
    let mut events = cluster.client.events(run, 0);
    let mut received = Vec::new();
    while let Some(event) = events.next().await.expect("the database is running") {
        assert_eq!(event.seq, received.len() as i64);
        let kind = serde_json::to_value(&event.kind).expect("events are serialisable");
        received.push((event.node, comparable(kind)));
    }
    // Tasks of one step finish in any order.
    let by_text = |mut it: Events| {
        it.sort_by_key(|(node, kind)| format!("{node:?} {kind}"));
        it
    };
    assert_eq!(by_text(received.clone()), by_text(expected));
    received
}

pub(crate) async fn starting_twice_runs_once(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let request = SMALL.request("r", "t");
    let (first, second) =
        tokio::join!(cluster.client.start(&request), cluster.client.start(&request));
    first.expect("the run starts");
    second.expect("the run has started");
    let done = cluster.client.wait("r").await.expect("the run exists");
    let again = cluster.client.start(&request).await.expect("the request is the same");
    assert_eq!(again, done);
    assert_eq!(cluster.effects().iter().filter(|it| it.starts_with("started")).count(), 6);
    let other = request.input("rounds", 7);
    let error = cluster.client.start(&other).await.expect_err("the request differs");
    assert!(matches!(error, ClusterError::IdReused(_)), "{error}");
}

pub(crate) async fn runs_of_a_thread_execute_one_after_the_other(cluster: &Cluster) {
    let _workers = (cluster.worker().await, cluster.worker().await);
    let runs = ["a", "b", "c"];
    for run in runs {
        cluster.client.start(&SMALL.request(run, "t")).await.expect("the run starts");
    }
    for run in runs {
        let info = cluster.client.wait(run).await.expect("the run exists");
        assert_eq!(info.status, RunStatus::Done, "{info:?}");
    }
    let label = |line: String| line.split([' ', '.']).nth(1).map(str::to_owned);
    let mut order: Vec<_> = cluster.effects().into_iter().filter_map(label).collect();
    order.dedup();
    assert_eq!(order, runs);
}

pub(crate) async fn interrupted_run_holds_no_worker_and_resumes(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let request = JobSpec { ask: true, ..SMALL }.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Interrupted);
    assert_eq!(run.outcome.interrupts.len(), 1);
    let status = cluster.client.status().await.expect("the database is running");
    assert!(status.workers.iter().all(|it| it.runs.is_empty()), "{status:?}");
    let wrong = cluster.client.resume("r", [("other".to_owned(), json!("yes"))]).await;
    assert!(matches!(wrong, Err(ClusterError::InvalidAnswer { .. })), "{wrong:?}");
    cluster.client.answer("r", "yes").await.expect("the interrupt is pending");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!((run.status, run.leg), (RunStatus::Done, 1));
    assert_eq!(run.outcome.values, expected.values);
    let again = cluster.client.answer("r", "yes").await;
    assert!(matches!(again, Err(ClusterError::InvalidAnswer { .. })), "{again:?}");
}

pub(crate) async fn queued_and_running_runs_are_cancelled(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let endless = JobSpec { rounds: 1, width: 1, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("endless", "t")).await.expect("the run starts");
    cluster.client.start(&endless.request("queued", "t")).await.expect("the run starts");
    cluster.client.start(&SMALL.request("last", "t")).await.expect("the run starts");
    cluster.wait_for_effects(1, "endless").await;
    for run in ["queued", "endless"] {
        cluster.client.cancel(run).await.expect("the run is active");
        let info = cluster.client.wait(run).await.expect("the run exists");
        assert_eq!(info.status, RunStatus::Cancelled);
    }
    let last = cluster.client.wait("last").await.expect("the run exists");
    assert_eq!(last.status, RunStatus::Done, "{last:?}");
    assert!(!cluster.effects().iter().any(|it| it.contains("queued")));
    let late = cluster.client.cancel("last").await;
    assert!(matches!(late, Err(ClusterError::NotCancellable { .. })), "{late:?}");
}

pub(crate) async fn cancellation_during_the_last_step_takes_effect(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    // The run is cancelled when its first events are stored. Without a notification, the worker does not learn of the
    // cancellation before the run is interrupted.
    cluster.sql(
        "CREATE FUNCTION cancel_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE graph_cluster.run SET cancel = true WHERE id = NEW.run;
            RETURN NULL;
        END $$;
        CREATE TRIGGER cancel_run AFTER INSERT ON graph_cluster.event
        FOR EACH ROW EXECUTE FUNCTION cancel_run()",
    );
    let asking = JobSpec { rounds: 1, width: 1, pause_ms: 5, ask: true };
    cluster.client.start(&asking.request("r", "t")).await.expect("the run starts");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Cancelled);
}

pub(crate) async fn failed_run_reports_its_error(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let request = SMALL.request("r", "t").input("rounds", "many");
    cluster.client.start(&request).await.expect("the run starts");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.outcome.error.unwrap_or_default();
    assert!(error.contains("rounds"), "{error}");
}

pub(crate) async fn draining_worker_hands_its_run_over(cluster: &Cluster) {
    let first = cluster.worker().await;
    let request = JobSpec { rounds: 12, width: 2, pause_ms: 40, ask: false }.request("r", "t");
    let expected = local::run(&request).await;
    // One of the checkpoints is not stored before the first worker drains.
    cluster.sql(&format!(
        "CREATE SEQUENCE hits;
        CREATE FUNCTION wait_for_drain() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.hits') = 9 THEN
                WHILE EXISTS (
                    SELECT FROM graph_cluster.worker WHERE id = '{}' AND NOT draining
                ) LOOP
                    PERFORM pg_sleep(0.01);
                END LOOP;
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER wait_for_drain BEFORE INSERT ON graph_store.checkpoint
        FOR EACH ROW EXECUTE FUNCTION wait_for_drain()",
        first.id
    ));
    cluster.client.start(&request).await.expect("the run starts");
    cluster.wait_for_effects(4, "r").await;
    let second = cluster.worker().await;
    first.signal(Signal::TERM);
    assert!(first.join().success());
    let run = cluster.check_values("r", &expected.values).await;
    assert!(run.claims > 1, "the first worker finished the run alone");
    // The run stopped between two steps, so no effect was repeated.
    let started = cluster.effects().into_iter().filter(|it| it.starts_with("started")).count();
    assert_eq!(started, 24);
    assert_eq!(cluster.workers().await.join(","), second.id);
}
