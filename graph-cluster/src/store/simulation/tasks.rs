//! Tests of writes to tasks in a certain order.

use std::collections::BTreeMap;

use super::statements::{GRAPH, claim_next, claim_tasks, connect, new_task};
use crate::{
    error::ClusterError,
    run::{RunResult, StartRun},
    run_status::RunStatus,
    store::{database::RunStore, task_writes::TaskWrite, tasks::TaskClaim},
    task_writer::TaskWriter,
};

async fn start_run(store: &RunStore) {
    let request = StartRun::new("r", GRAPH, "t");
    store.insert_run(&request, "simulation").await.expect("the request is valid");
}

/// A resumed run posts a task again that an earlier leg has deleted while a worker executed it.
#[tokio::test]
async fn claim_of_a_deleted_task_cannot_write_to_its_successor() {
    let Some(store) = connect("").await else { return };
    start_run(&store).await;
    let mut claims = Vec::new();
    for worker in [1, 2] {
        let run = claim_next(&store, 0).await.expect("the run is queued");
        store.post_tasks(&run, &[new_task(1, 0)]).await.expect("the database is running");
        claims.extend(claim_tasks(&store, worker, &[]).await);
        if worker == 1 {
            let ended = store.end_leg(&run, RunStatus::Failed, &RunResult::default(), None).await;
            assert!(ended.expect("the database is running"));
            let info = store.read_run("r").await.expect("the run exists");
            let queued = store.queue_leg(&info, &BTreeMap::new()).await;
            assert!(queued.expect("the run exists"));
        }
    }
    let write = |it: &TaskClaim| TaskWrite::messages(it, 0, vec!["{}".to_owned()]);
    let writes: Vec<TaskWrite> = claims.iter().map(write).collect();
    let stored = store.write_tasks(&writes.iter().collect::<Vec<_>>()).await;
    assert_eq!(stored.expect("the database is running"), [false, true]);
    assert_eq!(claims.iter().map(TaskClaim::claim_count).collect::<Vec<_>>(), [1, 1]);
}

/// The writes of both tasks may be in one statement.
#[tokio::test]
async fn rejected_write_fails_only_its_own_task() {
    let reject = "
        CREATE FUNCTION sim.reject() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''this message is invalid''; END';
        CREATE TRIGGER reject BEFORE INSERT ON graph_cluster.task_message FOR EACH ROW
            WHEN (NEW.body = 'invalid') EXECUTE FUNCTION sim.reject();";
    let Some(store) = connect(reject).await else { return };
    start_run(&store).await;
    let run = claim_next(&store, 0).await.expect("the run is queued");
    let tasks = [new_task(1, 0), new_task(1, 1)];
    store.post_tasks(&run, &tasks).await.expect("the database is running");
    let claims = claim_tasks(&store, 1, &[]).await;
    let writer = TaskWriter::start(store.clone());
    let write = |task: usize, body: &str| {
        writer.store(TaskWrite::messages(&claims[task], 0, vec![body.to_owned()]))
    };
    let (invalid, valid) = tokio::join!(write(0, "invalid"), write(1, "{}"));
    let Err(ClusterError::Rejected(problem)) = invalid else { panic!("it was stored") };
    assert!(problem.contains("this message is invalid"), "{problem}");
    assert!(valid.expect("the message is valid"));
    let stored = store.task_history(&claims[1]).await.expect("the database is running");
    assert_eq!(stored, [(0, "{}".to_owned())]);
}
