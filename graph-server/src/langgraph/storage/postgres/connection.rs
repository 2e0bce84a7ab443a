//! The connections of a replica to its database.

use std::{error::Error, fmt, str::FromStr, sync::Arc, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio::sync::Notify;
use tokio_postgres::{Config, NoTls, Row, types::ToSql};

use super::notices::Notices;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::new_id,
};

const SCHEMA: &str = include_str!("schema.sql");
/// Returns the version of the tables, which the last statement of the schema stores. Null if there are no tables.
const SCHEMA_VERSION: &str =
    "SELECT obj_description(to_regnamespace('graph_server'), 'pg_namespace')";
/// Must equal the version in `schema.sql`.
const CURRENT_VERSION: &str = "version 1";
/// Maximum number of connections, in addition to the one that receives notices.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time for establishing a connection, and for waiting for a free one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The database, as one replica uses it.
pub(super) struct PostgresStorage {
    pool: Pool,
    pub(super) notices: Notices,
    /// Notified when a run may be available.
    pub(super) queue_changed: Arc<Notify>,
    /// Id of this replica.
    pub(super) replica: String,
}

impl PostgresStorage {
    /// Connects to the database and creates the tables if they are missing.
    pub(super) async fn connect(url: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        // The URL is not shown, because it may contain a password.
        let mut config = Config::from_str(url).map_err(
            |_| "the URL must have the form postgresql://user:password@host:port/database",
        )?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("graph-server");
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
            .build()?;
        let mut connection = pool.get().await?;
        let version: Option<String> = connection.query_one(SCHEMA_VERSION, &[]).await?.get(0);
        // The statements lock the tables even if these exist, which can lead to deadlocks with other replicas.
        if version.as_deref() != Some(CURRENT_VERSION) {
            let transaction = connection.transaction().await?;
            transaction.batch_execute(SCHEMA).await?;
            transaction.commit().await?;
        }
        drop(connection);
        let queue_changed = Arc::new(Notify::new());
        let notices = Notices::listen(config, queue_changed.clone());
        Ok(Self { pool, notices, queue_changed, replica: new_id().to_string() })
    }

    pub(super) async fn connection(&self) -> ApiResult<Object> {
        self.pool.get().await.map_err(|error| ApiError::internal(&error))
    }

    /// Executes a statement that is idempotent or checks a fence. While the pooled connections turn out to be closed,
    /// tries the next one: after a restart of the database, every pooled connection is closed.
    pub(super) async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> ApiResult<Vec<Row>> {
        for _ in 0..MAX_CONNECTIONS {
            let connection = self.connection().await?;
            let result = match connection.prepare_cached(statement).await {
                Ok(prepared) => connection.query(&prepared, params).await,
                Err(error) => Err(error),
            };
            match result {
                Err(error) if error.is_closed() => {}
                result => return Ok(result?),
            }
        }
        Err(ApiError::internal("all connections to PostgreSQL are closed"))
    }

    pub(super) async fn query_opt(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> ApiResult<Option<Row>> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }
}

impl fmt::Debug for PostgresStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStorage").field("replica", &self.replica).finish_non_exhaustive()
    }
}
