//! Runs that start later, sleep, or start from an earlier checkpoint.

use std::time::{Duration, Instant};

use graph_cluster::{ClusterError, RunCommand, RunStatus, StartRun};
use graph_store::PostgresSaver;
use rustix::process::Signal;
use serde_json::json;

use crate::{
    cluster::Cluster,
    job::{EffectLog, graph},
    local::JobSpec,
};

const SMALL: JobSpec = JobSpec { rounds: 2, width: 3, pause_ms: 5, ask: false };

pub(crate) async fn delayed_run_does_not_block_its_thread(cluster: &Cluster) {
    let worker = cluster.worker().await;
    let late = SMALL.request("late", "t").after(Duration::from_secs(3600));
    cluster.client.start(&late).await.expect("the run starts");
    cluster.client.start(&SMALL.request("soon", "t")).await.expect("the run starts");
    let soon = cluster.client.wait("soon").await.expect("the run exists");
    assert_eq!(soon.status, RunStatus::Done, "{soon:?}");

    let delay = Duration::from_secs(2);
    let delayed = SMALL.request("delayed", "u").after(delay);
    let started = Instant::now();
    cluster.client.start(&delayed).await.expect("the run starts");
    // No process waits for the runs.
    worker.signal(Signal::TERM);
    assert!(worker.join().success());
    let _worker = cluster.worker().await;
    let again = cluster.client.start(&delayed).await.expect("the request is the same");
    assert_eq!(again.id, "delayed");
    let ended = cluster.client.wait("delayed").await.expect("the run exists");
    assert_eq!(ended.status, RunStatus::Done, "{ended:?}");
    assert!(started.elapsed() >= delay, "{:?}", started.elapsed());

    let late = cluster.client.run("late").await.expect("the run exists");
    assert_eq!((late.status, late.claims), (RunStatus::Queued, 0), "{late:?}");
    let label = |line: String| line.split([' ', '.']).nth(1).map(str::to_owned);
    let mut order: Vec<_> = cluster.effects().into_iter().filter_map(label).collect();
    order.dedup();
    assert_eq!(order, ["soon", "delayed"]);
}

pub(crate) async fn sleeping_run_holds_no_worker_and_continues(cluster: &Cluster) {
    let sleep = Duration::from_secs(4);
    let worker = cluster.worker().await;
    let job = JobSpec { ask: true, ..SMALL }.request("r", "t");
    let started = Instant::now();
    let job = job.input("sleep_ms", sleep.as_millis() as u64);
    // On a busy machine, the run may have continued before this process reads it.
    cluster.sql(
        "CREATE TABLE asleep (status text, worker text);
        CREATE FUNCTION log_sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.asleep VALUES (NEW.status, NEW.worker);
            RETURN NULL;
        END $$;
        CREATE TRIGGER log_sleep AFTER UPDATE ON graph_cluster.run
        FOR EACH ROW WHEN (NEW.leg > OLD.leg) EXECUTE FUNCTION log_sleep()",
    );
    cluster.client.start(&job).await.expect("the run starts");
    loop {
        let run = cluster.client.run("r").await.expect("the run exists");
        if run.leg > 0 {
            break;
        }
        assert!(run.status.is_active(), "{run:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(cluster.sql("SELECT status, worker IS NULL FROM asleep"), "queued|t");
    // A repeated start does not wake the run.
    cluster.client.start(&job).await.expect("the request is the same");
    worker.signal(Signal::TERM);
    assert!(worker.join().success());
    let _worker = cluster.worker().await;
    let asked = cluster.client.wait("r").await.expect("the run exists");
    assert!(started.elapsed() >= sleep, "{:?}", started.elapsed());
    assert_eq!(asked.status, RunStatus::Interrupted, "{asked:?}");
    cluster.client.answer("r", "yes").await.expect("a person is asked");
    let done = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!((done.status, done.leg), (RunStatus::Done, 2));
    let log = done.outcome.values["log"].as_array().expect("the log is a list");
    assert_eq!(log.last(), Some(&json!("answer: yes")));
}

pub(crate) async fn sleeping_run_is_cancelled_at_once(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let job = JobSpec { ask: true, ..SMALL }.request("r", "t").input("sleep_ms", 3_600_000);
    cluster.client.start(&job).await.expect("the run starts");
    while cluster.client.run("r").await.expect("the run exists").leg == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.client.cancel("r").await.expect("the run sleeps");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Cancelled);
}

pub(crate) async fn fork_repeats_the_steps_after_a_checkpoint(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    cluster.client.start(&SMALL.request("r", "t")).await.expect("the run starts");
    let original = cluster.client.wait("r").await.expect("the run exists");
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = graph(std::sync::Arc::new(saver), None).expect("the graph is valid");
    let thread = graph.thread("t", EffectLog::default());
    let history = thread.history(None).await.expect("the thread exists");
    let before_plan = history.iter().rfind(|it| it.next == ["plan"]).expect("the first step");
    let fork = StartRun::new("f", "job", "t").checkpoint(before_plan.id);
    let both = fork.clone().input("label", "f").command(RunCommand::new());
    let error = cluster.client.start(&both).await.expect_err("the request is ambiguous");
    assert!(matches!(error, ClusterError::InputAndCommand(_)), "{error}");

    let repeat = fork.clone().command(RunCommand::new());
    cluster.client.start(&repeat).await.expect("the run starts");
    let repeated = cluster.client.wait("f").await.expect("the run exists");
    assert_eq!((repeated.status, &repeated.outcome), (RunStatus::Done, &original.outcome));
    assert_eq!(cluster.effects().iter().filter(|it| it.starts_with("started")).count(), 12);

    let renamed = StartRun { id: "g".to_owned(), ..fork };
    let renamed = renamed.command(RunCommand::new().update("label", "g"));
    cluster.client.start(&renamed).await.expect("the run starts");
    let renamed = cluster.client.wait("g").await.expect("the run exists");
    assert_eq!(renamed.outcome.values["label"], "g", "{renamed:?}");
    let state = thread.state().await.expect("the thread exists").expect("it has a checkpoint");
    assert_eq!((state.run.as_str(), state.values.label.as_str()), ("g", "g"));
    // The first branch is still there.
    let first = thread.at(history[0].id).state().await.expect("the thread exists");
    assert_eq!(first.map(|it| it.values.label), Some("r".to_owned()));
}
