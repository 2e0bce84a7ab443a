//! A worker that dies after it has used an answer without an interrupt id.

use graph_cluster::{RunCommand, RunStatus, StartRun};
use graph_core::{
    Context, NodeError, START, State, StateGraph,
    checkpoint::{CheckpointId, Checkpointer, Lookup},
};
use graph_store::PostgresSaver;
use serde_json::json;

use crate::{cluster::Cluster, local_worker::LocalWorker, pause};

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

async fn start_worker(cluster: &Cluster, id: &str) -> LocalWorker {
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = StateGraph::<Survey>::new().node(ask).edge(START, ask);
    let graph = graph.checkpointer(saver).compile().expect("the graph is valid");
    LocalWorker::start(cluster, id, |it| it.graph("survey", graph, || ())).await
}

/// Returns the newest checkpoint of the thread.
async fn head(cluster: &Cluster) -> CheckpointId {
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let head = saver.get(&Lookup::head("t", "")).await.expect("the database is running");
    head.expect("the thread has a checkpoint").key.id
}

pub(crate) async fn answer_is_not_used_for_the_next_interrupt(cluster: &Cluster) {
    check_answer(cluster, false).await;
}

pub(crate) async fn answer_at_the_newest_checkpoint_is_not_used_for_the_next_interrupt(
    cluster: &Cluster,
) {
    check_answer(cluster, true).await;
}

async fn check_answer(cluster: &Cluster, is_addressed: bool) {
    let first = start_worker(cluster, "first").await;
    cluster.client.start(&StartRun::new("asks", "survey", "t")).await.expect("the run starts");
    assert_eq!(cluster.ended("asks").await.status, RunStatus::Interrupted);
    // The statement that stores the result of the next leg does not return.
    cluster.sql(
        "CREATE SEQUENCE hits;
        CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('hits') = 1 THEN PERFORM pg_sleep(3600); END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER pause BEFORE UPDATE ON graph_cluster.run
        FOR EACH ROW WHEN (NEW.status = 'interrupted') EXECUTE FUNCTION pause()",
    );
    let head = head(cluster).await;
    let mut answer = StartRun::new("answers", "survey", "t");
    answer.command = Some(RunCommand::new().resume("yes"));
    answer.checkpoint = is_addressed.then_some(head);
    cluster.client.start(&answer).await.expect("the run starts");
    pause::wait_until_reached(cluster, "the end of the leg").await;
    // The worker dies before it has stored the end of the leg. It keeps its claim until the lease expires.
    first.abort().await;
    cluster.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep'",
    );
    // Waits until the statement has released the row.
    cluster.sql("UPDATE graph_cluster.run SET lease_until = now() WHERE id = 'answers'");
    let second = start_worker(cluster, "second").await;
    let asked = cluster.ended("answers").await;
    assert_eq!(asked.status, RunStatus::Interrupted, "the answer was used twice: {asked:?}");
    assert_eq!(asked.outcome.interrupts[0].value, "second?");
    assert_eq!(asked.claims, 2);
    cluster.client.answer("answers", "no").await.expect("the run waits for an answer");
    let done = cluster.ended("answers").await;
    assert_eq!(done.outcome.values["answers"], json!(["yes", "no"]), "{done:?}");
    second.stop().await;
}
