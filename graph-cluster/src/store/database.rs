//! The connections to the database of a cluster.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, tokio_postgres::Config,
};
use tokio_postgres::{NoTls, Row, types::ToSql};

use super::notices::{Notice, Notices};
use crate::error::ClusterError;

const SCHEMA: &str = include_str!("schema.sql");
/// Returns the version of the tables, such as `version 2`, which the last statement of the schema stores. Null if there
/// are no tables.
const SCHEMA_VERSION: &str =
    "SELECT obj_description(to_regnamespace('graph_cluster'), 'pg_namespace')";
/// Must equal the version in `schema.sql`.
const CURRENT_VERSION: u32 = 4;
/// Maximum number of connections, in addition to the one that receives notifications.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time for establishing a connection, and for waiting for a free one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The runs of a cluster, in a PostgreSQL database that all clients and workers share. Clones share the connections.
///
/// The tables are in the schema `graph_cluster`. The checkpointer of the graphs must use the same database: a worker that
/// takes over a run ends the session in which its predecessor leases the thread.
///
/// ```no_run
/// use graph_cluster::{Client, PostgresQueue, RunStore};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Clients and workers connect to the same database.
/// let store = RunStore::connect("postgresql://graphs:secret@db.example.org/graphs").await?;
/// let client = Client::new(store.clone(), PostgresQueue::new());
/// println!("{:?}", client.run("run-7").await?.status);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RunStore(Arc<Inner>);

struct Inner {
    pool: Pool,
    notices: Notices,
}

impl RunStore {
    /// Connects to `postgresql://user:password@host:port/database` and creates the tables if they are missing.
    pub async fn connect(url: &str) -> Result<Self, ClusterError> {
        let mut config = Config::from_str(url).map_err(|_| {
            // The URL is not shown, because it may contain a password.
            ClusterError::Database(
                "the URL must have the form postgresql://user:password@host:port/database".into(),
            )
        })?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("graph-cluster");
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        // Keepalives do not detect a lost connection while sent data is unacknowledged.
        config.tcp_user_timeout(CONNECT_TIMEOUT);
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config.clone(), NoTls, settings))
            .max_size(MAX_CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .build()
            .map_err(|error| ClusterError::Database(error.to_string()))?;
        let mut connection = pool.get().await?;
        let version: Option<String> = connection.query_one(SCHEMA_VERSION, &[]).await?.get(0);
        let version = version.as_deref().map_or(0, version_number);
        if version > CURRENT_VERSION {
            return Err(ClusterError::NewerSchema { found: version, supported: CURRENT_VERSION });
        }
        // The statements lock the tables even if these exist, which can lead to deadlocks with running workers.
        if version < CURRENT_VERSION {
            let transaction = connection.transaction().await?;
            transaction.batch_execute(SCHEMA).await?;
            transaction.commit().await?;
        }
        drop(connection);
        Ok(Self(Arc::new(Inner { pool, notices: Notices::listen(config) })))
    }

    /// Checks that the database executes statements.
    pub(crate) async fn ping(&self) -> Result<(), ClusterError> {
        self.query("SELECT 1", &[]).await.map(drop)
    }

    /// Returns a receiver of the changes that other processes announce.
    pub(crate) fn notices(&self) -> tokio::sync::broadcast::Receiver<Notice> {
        self.0.notices.subscribe()
    }

    pub(super) async fn connection(&self) -> Result<Object, ClusterError> {
        Ok(self.0.pool.get().await?)
    }

    /// Executes a statement. If a pooled connection turns out to be closed, tries the next one, which is safe because
    /// all statements of this crate are idempotent or check a fence.
    pub(super) async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ClusterError> {
        for _ in 0..MAX_CONNECTIONS {
            let connection = self.connection().await?;
            let prepared = connection.prepare_cached(statement).await;
            let result = match prepared {
                Ok(prepared) => connection.query(&prepared, params).await,
                Err(error) => Err(error),
            };
            match result {
                // After a restart of the server, every pooled connection is closed.
                Err(error) if error.is_closed() => {}
                result => return Ok(result?),
            }
        }
        Err(ClusterError::Database("all connections to the server are closed".into()))
    }

    pub(super) async fn query_opt(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, ClusterError> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }
}

/// Returns the number in the text of a schema's version, or zero if it has none.
fn version_number(text: &str) -> u32 {
    text.strip_prefix("version ").and_then(|it| it.parse().ok()).unwrap_or_default()
}

impl fmt::Debug for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStore").finish_non_exhaustive()
    }
}
