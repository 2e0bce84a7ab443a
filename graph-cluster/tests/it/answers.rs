//! An answer without an interrupt id whose worker dies after the answer was used.

use std::time::{Duration, Instant};

use graph_cluster::{
    ClusterError, PostgresQueue, RunCommand, RunInfo, RunStatus, RunStore, StartRun, Worker,
};
use graph_core::{Context, NodeError, START, State, StateGraph};
use graph_store::PostgresSaver;
use serde_json::json;
use tokio::{task::JoinHandle, time::timeout};

use crate::cluster::Cluster;

/// A run that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(180);

#[derive(State, Clone, Debug, Default)]
struct Survey {
    answers: Vec<String>,
}

/// Asks two questions in one task, so that no checkpoint is stored between them.
async fn ask(_: &Survey, cx: &Context) -> Result<SurveyUpdate, NodeError> {
    let first: String = cx.interrupt("first?")?;
    let second: String = cx.interrupt("second?")?;
    Ok(Survey::update().answers(vec![first, second]))
}

/// Starts a worker in this process. Aborting its task has the effect of a crash: the worker releases nothing.
async fn start_worker(cluster: &Cluster, id: &str) -> JoinHandle<Result<(), ClusterError>> {
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = StateGraph::<Survey>::new().node(ask).edge(START, ask);
    let graph = graph.checkpointer(saver).compile().expect("the graph is valid");
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let worker = Worker::new(store).id(id).graph("survey", graph, || ());
    let worker = worker.lease(Duration::from_millis(1500));
    tokio::spawn(worker.serve(PostgresQueue::new(), std::future::pending()))
}

async fn wait(cluster: &Cluster, run: &str) -> RunInfo {
    let ended = timeout(DEADLINE, cluster.client.wait(run)).await.expect("the run hangs");
    ended.expect("the run exists")
}

pub(crate) async fn answer_is_not_used_for_the_next_interrupt(cluster: &Cluster) {
    let first = start_worker(cluster, "first").await;
    cluster.client.start(&StartRun::new("asks", "survey", "t")).await.expect("the run starts");
    assert_eq!(wait(cluster, "asks").await.status, RunStatus::Interrupted);
    // The statement that stores the end of the next leg does not return.
    cluster.sql(
        "CREATE SEQUENCE hits;
        CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('hits') = 1 THEN PERFORM pg_sleep(3600); END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER pause BEFORE UPDATE ON graph_cluster.run
        FOR EACH ROW WHEN (NEW.status = 'interrupted') EXECUTE FUNCTION pause()",
    );
    let answer = StartRun::new("answers", "survey", "t").command(RunCommand::new().resume("yes"));
    cluster.client.start(&answer).await.expect("the run starts");
    let sleeping =
        "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let deadline = Instant::now() + DEADLINE;
    while cluster.sql(&format!("SELECT count(*) {sleeping}")) == "0" {
        assert!(Instant::now() < deadline, "the leg does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.abort();
    assert!(first.await.is_err_and(|it| it.is_cancelled()));
    cluster.sql(&format!("SELECT pg_terminate_backend(pid) {sleeping}"));
    let second = start_worker(cluster, "second").await;
    let asked = wait(cluster, "answers").await;
    assert_eq!(asked.status, RunStatus::Interrupted, "the answer was used twice: {asked:?}");
    assert_eq!(asked.outcome.interrupts[0].value, "second?");
    assert_eq!(asked.claims, 2);
    cluster.client.answer("answers", "no").await.expect("a person is asked");
    let done = wait(cluster, "answers").await;
    assert_eq!(done.outcome.values["answers"], json!(["yes", "no"]), "{done:?}");
    second.abort();
}
