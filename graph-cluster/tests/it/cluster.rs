//! A cluster for one test: a database, worker processes and, for Restate, a server.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use graph_cluster::{Client, PostgresQueue, Restate, RunInfo, RunStatus, RunStore};
use graph_tests::postgres;
use serde_json::{Map, Value};
use tempfile::TempDir;
use test_support::DEADLINE;
use tokio::time::timeout;

use crate::{restate_server::RestateServer, worker_process::WorkerProcess};

/// Options of workers that are killed or cut off, so that other workers take over soon.
pub(crate) const SHORT_LEASE: [&str; 2] = ["--lease-ms", "1500"];

/// Lease of workers in this process. They must not lose runs on an overloaded machine.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(60);

/// A scheduler under test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SchedulerKind {
    Postgres,
    Restate,
    /// Three nodes, and HAProxy in front of the workers.
    RestateCluster,
}

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) database: String,
    /// The server of the database, if no other test uses it.
    server: Option<Arc<postgres::Server>>,
    dir: TempDir,
    n_workers: Mutex<u32>,
    pub(crate) restate: Option<RestateServer>,
}

impl Cluster {
    /// Starts a cluster without workers. Returns `None` if a server is not installed.
    pub(crate) async fn start(kind: SchedulerKind) -> Option<Self> {
        Self::start_on(kind, None, postgres::fresh_database()?).await
    }

    /// Starts a cluster with a database server that the test may crash.
    pub(crate) async fn start_with_own_server(kind: SchedulerKind) -> Option<Self> {
        postgres::shared()?;
        let server = Arc::new(postgres::Server::start().expect("another server has started"));
        let database = server.fresh_database();
        Self::start_on(kind, Some(server), database).await
    }

    /// Starts a cluster with an empty database.
    pub(crate) async fn start_on(
        kind: SchedulerKind,
        server: Option<Arc<postgres::Server>>,
        database: String,
    ) -> Option<Self> {
        let store = RunStore::connect(&database).await.expect("the database was just created");
        let (client, restate) = match kind {
            SchedulerKind::Postgres => (Client::new(store, PostgresQueue::new()), None),
            SchedulerKind::Restate | SchedulerKind::RestateCluster => {
                let server = match kind {
                    SchedulerKind::RestateCluster => RestateServer::start_cluster()?,
                    _ => RestateServer::start().await?,
                };
                let restate = Restate::new(&server.ingress).expect("a client for HTTP");
                (Client::new(store, restate), Some(server))
            }
        };
        Some(Self {
            client,
            database,
            server,
            dir: tempfile::tempdir().expect("a temporary directory"),
            n_workers: Mutex::new(0),
            restate,
        })
    }

    /// Starts a worker and waits until it reports.
    pub(crate) async fn worker(&self) -> WorkerProcess {
        self.worker_with(&[]).await
    }

    /// Starts a worker with additional options and waits until it reports.
    pub(crate) async fn worker_with(&self, further: &[&str]) -> WorkerProcess {
        self.worker_on(&self.database, further).await
    }

    /// Starts a worker that reaches the database at this URL.
    pub(crate) async fn worker_on(&self, database: &str, further: &[&str]) -> WorkerProcess {
        let number = {
            let mut number = self.n_workers.lock().expect("no test panics while it holds the lock");
            *number += 1;
            *number
        };
        let id = format!("worker-{number}");
        let mut options: Vec<String> = Vec::new();
        if let Some(server) = &self.restate {
            options.extend(["--restate".into(), server.ingress.clone()]);
        }
        // These override the options above, because the last value of a repeated option applies.
        options.extend(further.iter().map(ToString::to_string));
        let mut worker = WorkerProcess::start(id, database, &self.effects_file(), &options);
        while !self.workers().await.contains(&worker.id) {
            assert!(worker.is_running(), "{} ended before it was ready", worker.id);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if let Some(server) = &self.restate {
            server.workers.add(worker.address);
            if number == 1 {
                server.register().await;
            }
        }
        worker
    }

    /// Returns the ids of the workers that the cluster knows.
    pub(crate) async fn workers(&self) -> Vec<String> {
        let status = self.client.status().await.expect("the database is running");
        status.workers.into_iter().map(|it| it.id).collect()
    }

    fn effects_file(&self) -> PathBuf {
        self.dir.path().join("effects")
    }

    /// Returns the lines of the effect log so far.
    pub(crate) fn effects(&self) -> Vec<String> {
        let text = fs::read_to_string(self.effects_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the effect log has this number of lines, or until the run has ended.
    pub(crate) async fn wait_for_effects(&self, count: usize, run: &str) {
        while self.effects().len() < count {
            let info = self.client.run(run).await.expect("the run exists");
            if !info.status.is_active() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a run is neither queued nor running.
    pub(crate) async fn ended(&self, run: &str) -> RunInfo {
        let ended = timeout(DEADLINE, self.client.wait(run)).await.expect("the run hangs");
        ended.expect("the run exists")
    }

    /// Waits until a run is done, and checks that it has these values.
    pub(crate) async fn check_values(&self, run: &str, expected: &Map<String, Value>) -> RunInfo {
        let info = self.ended(run).await;
        assert_eq!((info.status, &info.outcome.values), (RunStatus::Done, expected));
        info
    }

    /// Starts to count takeovers: claims of a run or task whose previous claim has not ended.
    pub(crate) fn count_takeovers(&self) {
        self.sql(
            "CREATE TABLE takeover (kind text);
            CREATE FUNCTION log_takeover() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.takeover VALUES (TG_TABLE_NAME);
                RETURN NULL;
            END $$;
            CREATE TRIGGER log_takeover AFTER UPDATE ON graph_cluster.run FOR EACH ROW
            WHEN (NEW.fence > OLD.fence AND OLD.status = 'running') EXECUTE FUNCTION log_takeover();
            CREATE TRIGGER log_takeover AFTER UPDATE ON graph_cluster.task FOR EACH ROW
            WHEN (NEW.fence > OLD.fence AND (OLD.fence & 4294967295) > 0) EXECUTE FUNCTION log_takeover()",
        );
    }

    /// Returns the number of takeovers of runs or tasks since [`count_takeovers`](Self::count_takeovers).
    pub(crate) fn n_takeovers(&self, table: &str) -> usize {
        let count = format!("SELECT count(*) FROM takeover WHERE kind = '{table}'");
        self.sql(&count).parse().expect("a number")
    }

    /// Executes SQL statements on the database.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let server = self.server.as_deref().or_else(|| postgres::shared());
        server.expect("the server is running").sql(&self.database, statement)
    }

    /// Crashes the test's own database server and starts it again.
    pub(crate) async fn crash_database(&self) {
        let server = self.server.clone().expect("the test has its own server");
        let crashed = tokio::task::spawn_blocking(move || server.crash_and_restart()).await;
        crashed.expect("the server starts again");
    }

    /// Kills a node of the Restate server permanently.
    pub(crate) fn kill_restate_node(&self) {
        self.restate.as_ref().expect("the cluster uses Restate").kill_first_node();
    }

    /// Crashes a random node of the Restate server and starts it again.
    pub(crate) async fn crash_restate(&self, rng: &mut fastrand::Rng) {
        self.restate.as_ref().expect("the cluster uses Restate").crash_and_restart(rng).await;
    }

    /// Changes the network between the Restate server and its workers.
    pub(crate) fn set_restate_link(&self, link: crate::proxy::Link) {
        self.restate.as_ref().expect("the cluster uses Restate").workers.set_link(link);
    }
}
