//! Statements that wait until the processes that execute them are dead. The database completes such a statement, but
//! its result is lost.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use test_support::DEADLINE;

use crate::cluster::Cluster;

/// A statement that waits, so that processes can be killed while they execute it.
#[derive(Debug)]
pub(crate) struct PausePoint {
    pub(crate) table: &'static str,
    pub(crate) operation: &'static str,
    /// Condition on the new row.
    pub(crate) condition: &'static str,
}

pub(crate) const fn pause_point(
    table: &'static str,
    operation: &'static str,
    condition: &'static str,
) -> PausePoint {
    PausePoint { table, operation, condition }
}

/// Creates the trigger function that waits. Call this function once for each database.
pub(crate) fn prepare(cluster: &Cluster) {
    cluster.sql(
        "CREATE SEQUENCE hits;
        CREATE TABLE dead (number int);
        CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.hits') = 0 THEN
                WHILE NOT EXISTS (SELECT FROM public.dead) LOOP PERFORM pg_sleep(0.05); END LOOP;
            END IF;
            RETURN coalesce(NEW, OLD);
        END $$;
        ALTER SEQUENCE hits MINVALUE -10",
    );
}

/// Makes the statement wait after it has been executed `n_before` times.
pub(crate) fn set(cluster: &Cluster, point: &PausePoint, n_before: u32) {
    let PausePoint { table, operation, condition } = point;
    cluster.sql(&format!(
        "ALTER SEQUENCE hits RESTART WITH -{n_before};
        CREATE TRIGGER pause BEFORE {operation} ON {table}
        FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION pause()"
    ));
}

/// Returns once a process executes the statement.
pub(crate) async fn wait_until_reached(cluster: &Cluster, point: impl Debug) {
    let sleeping = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let deadline = Instant::now() + DEADLINE;
    while cluster.sql(sleeping) == "0" {
        assert!(Instant::now() < deadline, "no process executes {point:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets the statement continue, and waits until it has ended. The processes must be dead.
pub(crate) fn release(cluster: &Cluster, point: &PausePoint) {
    cluster.sql("INSERT INTO dead VALUES (1)");
    cluster.sql(&format!("DROP TRIGGER pause ON {}", point.table));
    cluster.sql("DELETE FROM dead");
}
