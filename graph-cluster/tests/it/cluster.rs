//! A cluster for one test: a database, worker processes and, for Restate, a server.

use std::{fs, path::PathBuf, sync::Mutex, time::Duration};

use graph_cluster::{Client, PostgresQueue, RunStore};
use graph_tests::postgres;
use tempfile::TempDir;

use crate::worker_process::WorkerProcess;

/// A scheduler under test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SchedulerKind {
    Postgres,
    #[cfg(feature = "restate")]
    Restate,
}

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) database: String,
    dir: TempDir,
    n_workers: Mutex<u32>,
    #[cfg(feature = "restate")]
    restate: Option<crate::restate_server::RestateServer>,
}

impl Cluster {
    /// Starts a cluster without workers. Returns `None` if a server is not installed.
    pub(crate) async fn start(kind: SchedulerKind) -> Option<Self> {
        let database = postgres::fresh_database()?;
        let store = RunStore::connect(&database).await.expect("the database was just created");
        #[cfg(feature = "restate")]
        let (client, restate) = match kind {
            SchedulerKind::Postgres => (Client::new(store, PostgresQueue::new()), None),
            SchedulerKind::Restate => {
                let server = crate::restate_server::RestateServer::start().await?;
                let restate =
                    graph_cluster::Restate::new(&server.ingress).expect("a client for HTTP");
                (Client::new(store, restate), Some(server))
            }
        };
        #[cfg(not(feature = "restate"))]
        let client = match kind {
            SchedulerKind::Postgres => Client::new(store, PostgresQueue::new()),
        };
        Some(Self {
            client,
            database,
            dir: tempfile::tempdir().expect("a temporary directory"),
            n_workers: Mutex::new(0),
            #[cfg(feature = "restate")]
            restate,
        })
    }

    /// Starts a worker and waits until it reports.
    pub(crate) async fn worker(&self) -> WorkerProcess {
        let number = {
            let mut number = self.n_workers.lock().expect("no test panics while it holds the lock");
            *number += 1;
            *number
        };
        let id = format!("worker-{number}");
        let mut options: Vec<String> = Vec::new();
        #[cfg(feature = "restate")]
        if let Some(server) = &self.restate {
            // With the short limit, most runs need several legs.
            options.extend(["--restate".into(), server.ingress.clone()]);
            options.extend(["--leg-limit-ms".into(), "200".into()]);
        }
        let worker = WorkerProcess::start(id, &self.database, &self.effects_file(), &options);
        options.clear();
        while !self.workers().await.contains(&worker.id) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        #[cfg(feature = "restate")]
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

    /// Returns the database, for checks of the tables.
    pub(crate) fn sql(&self, statement: &str) -> String {
        postgres::shared().expect("the server is running").sql(&self.database, statement)
    }
}
