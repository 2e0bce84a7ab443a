//! The connections to the database of a cluster.

use std::{fmt, sync::Arc};

use deadpool_postgres::Object;
use graph_store::postgres::connections::Connections;
use tokio_postgres::{Row, types::ToSql};

use super::notices::{Notice, Notices};
use crate::error::ClusterError;

/// Must equal the version in `schema.sql`.
const SCHEMA_VERSION: u32 = 5;
/// Maximum number of connections, in addition to the one that receives notifications.
const MAX_CONNECTIONS: usize = 16;

/// The runs of a cluster, in a PostgreSQL database that all clients and workers share. Clones share the connections.
///
/// The tables are in the schema `graph_cluster`. The checkpointer of the graphs must use the same database: a worker
/// that takes over a run ends the session in which its predecessor leases the thread.
///
/// ```
/// use graph_cluster::{Client, PostgresQueue, RunStore};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Clients and workers connect to the same database.
/// let url = "postgresql://graphs:secret@db.example.org/graphs";
/// # let Some(fresh) = graph_tests::postgres::fresh_database() else { return Ok(()) };
/// # let url = &fresh;
/// let store = RunStore::connect(url).await?;
/// let client = Client::new(store.clone(), PostgresQueue::new());
/// assert!(client.run("run-7").await.is_err(), "no client has started it");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RunStore(Arc<Inner>);

struct Inner {
    connections: Connections,
    notices: Notices,
}

impl RunStore {
    /// Connects to `postgresql://user:password@host:port/database` and creates the tables if they are missing. The
    /// option `sslmode` selects the encryption: see [`Connections`].
    pub async fn connect(url: &str) -> Result<Self, ClusterError> {
        let connections = Connections::open(url, "graph-cluster", MAX_CONNECTIONS).await?;
        let schema = include_str!("schema.sql");
        connections.create_tables("graph_cluster", SCHEMA_VERSION, schema).await?;
        let notices = Notices::listen(&connections);
        Ok(Self(Arc::new(Inner { connections, notices })))
    }

    /// Checks that the database executes statements.
    pub(crate) async fn ping(&self) -> Result<(), ClusterError> {
        self.query("SELECT 1", &[]).await.map(drop)
    }

    /// Returns a receiver of the changes that other processes announce.
    pub(crate) fn notices(&self) -> tokio::sync::broadcast::Receiver<Notice> {
        self.0.notices.subscribe()
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(super) async fn connection(&self) -> Result<Object, ClusterError> {
        Ok(self.0.connections.get().await?)
    }

    /// Executes a statement, which must be idempotent or check a fence.
    pub(super) async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ClusterError> {
        Ok(self.0.connections.query(statement, params).await?)
    }

    pub(super) async fn query_opt(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, ClusterError> {
        Ok(self.0.connections.query_opt(statement, params).await?)
    }
}

impl fmt::Debug for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStore").finish_non_exhaustive()
    }
}
