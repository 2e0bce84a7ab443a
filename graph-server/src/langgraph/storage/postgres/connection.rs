//! The connections of a replica to its database.

use std::{error::Error, fmt, sync::Arc};

use deadpool_postgres::Object;
use graph_store::postgres::connections::Connections;
use tokio::sync::Notify;
use tokio_postgres::{Row, types::ToSql};

use super::notices::Notices;
use crate::langgraph::{error::ApiResult, id::new_id};

/// Must equal the version in `schema.sql`.
const SCHEMA_VERSION: u32 = 2;
/// Maximum number of connections, in addition to the one that receives notices.
const MAX_CONNECTIONS: usize = 16;

/// The database, as one replica uses it.
pub(super) struct PostgresStorage {
    connections: Connections,
    pub(super) notices: Notices,
    /// Notified when a run may be available.
    pub(super) queue_changed: Arc<Notify>,
    /// Id of this replica.
    pub(super) replica: String,
}

impl PostgresStorage {
    /// Connects to the database and creates the tables if they are missing.
    pub(super) async fn connect(url: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let connections = Connections::open(url, "graph-server", MAX_CONNECTIONS).await?;
        let schema = include_str!("schema.sql");
        connections.create_tables("graph_server", SCHEMA_VERSION, schema).await?;
        let queue_changed = Arc::new(Notify::new());
        let notices = Notices::listen(&connections, queue_changed.clone());
        Ok(Self { connections, notices, queue_changed, replica: new_id().to_string() })
    }

    pub(super) async fn connection(&self) -> ApiResult<Object> {
        Ok(self.connections.get().await?)
    }

    /// Executes a statement that is idempotent or checks a fence.
    pub(super) async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> ApiResult<Vec<Row>> {
        Ok(self.connections.query(statement, params).await?)
    }

    pub(super) async fn query_opt(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> ApiResult<Option<Row>> {
        Ok(self.connections.query_opt(statement, params).await?)
    }
}

impl fmt::Debug for PostgresStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStorage").field("replica", &self.replica).finish_non_exhaustive()
    }
}
