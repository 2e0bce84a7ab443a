//! Statements that virtual workers execute, and their database.

use graph_tests::postgres;

use super::history::LEASE;
use crate::{
    graph_version::ServedVersions,
    store::{
        claims::Claim,
        database::RunStore,
        tasks::{NewTask, TaskClaim, TaskFilter},
    },
};

pub(super) const GRAPH: &str = "graph";

pub(super) fn worker_id(number: usize) -> String {
    format!("worker {number}")
}

pub(super) fn new_task(step: i64, number: u32) -> NewTask {
    NewTask { id: format!("{step}.{number}"), pool: None, step, start: "{}".to_owned() }
}

pub(super) async fn claim_next(store: &RunStore, worker: usize) -> Option<Claim> {
    let served = ServedVersions {
        graphs: vec![GRAPH.into(), GRAPH.into()],
        versions: vec![None, Some(String::new())],
        targets: vec![String::new(), String::new()],
    };
    let claim = store.claim_next(&worker_id(worker), &served, LEASE, "simulation").await;
    claim.expect("the database is running")
}

pub(super) async fn claim_tasks(
    store: &RunStore,
    worker: usize,
    active: &[&TaskClaim],
) -> Vec<TaskClaim> {
    let filter = TaskFilter {
        worker: &worker_id(worker),
        graphs: &[GRAPH.to_owned()],
        pools: &[],
        only_own_runs: false,
        held: 0,
        active,
    };
    store.claim_tasks(&filter, LEASE, 2).await.expect("the database is running")
}

/// Connects to a new database with a simulated clock. Returns `None` if PostgreSQL is not installed.
pub(super) async fn connect(further_schema: &str) -> Option<RunStore> {
    let server = postgres::shared()?;
    let database = server.fresh_database();
    server.sql(
        &database,
        "CREATE SCHEMA sim;
        CREATE TABLE sim.clock (at timestamptz NOT NULL);
        INSERT INTO sim.clock VALUES ('2026-01-01');
        CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM sim.clock';",
    );
    let options = "-c%20search_path%3Dsim,pg_catalog%20-c%20synchronous_commit%3Doff";
    let store = RunStore::connect(&format!("{database}?options={options}")).await;
    let store = store.expect("the database was just created");
    if !further_schema.is_empty() {
        server.sql(&database, further_schema);
    }
    Some(store)
}
