//! A PostgreSQL database: a pool of connections that use one schema on a server.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_postgres::{Object, Pool, PoolError};
use tokio_postgres::{Row, types::ToSql};

use super::{
    connections::Connections,
    failure::{DatabaseError, is_conflict, is_connection_lost, problem},
    leases::Leases,
    schema::{self, Schema},
};
#[cfg(feature = "encryption")]
use crate::codec::Keys;
use crate::{
    codec::{Codec, MAX_VALUE_BYTES},
    error::OpenError,
};

/// Default maximum number of connections.
const MAX_CONNECTIONS: usize = 16;
/// Delay before each retry after a lost connection.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// Settings for opening a database. Create them with [`Postgres::settings`].
///
/// ```no_run
/// use graph_store::Postgres;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Postgres::settings()
///     .schema("chatbot")
///     .connections(32)
///     .connect("postgresql://graphs:secret@db.example.org/graphs")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings have no effect until `connect` is called"]
pub struct Settings {
    schema: String,
    connections: usize,
    max_value_bytes: usize,
    #[cfg(feature = "encryption")]
    keys: Option<Keys>,
}

impl Settings {
    /// Sets the schema that contains the tables. Use a separate schema for each independent set of threads in a
    /// database.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum number of connections in the pool. Leases use one additional connection.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.max(1);
        self
    }

    /// Sets the maximum size of one stored value, in bytes.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Encrypts all values that are written from now on. Existing unencrypted values stay as they are and remain
    /// readable.
    ///
    /// The names of threads, namespaces, fields, runs and effects are not encrypted. Encryption keeps values
    /// secret, but it does not prevent an attacker with write access to the tables from swapping stored values.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Connects to `postgresql://user:password@host:port/database` and creates the tables if they are missing.
    ///
    /// The option `sslmode` selects the encryption: see [`Connections`].
    pub async fn connect(self, url: &str) -> Result<Postgres, OpenError> {
        let connections = Connections::open(url, "graph-store", self.connections).await?;
        self.open(connections.pool().clone(), connections.address().to_owned()).await
    }

    /// Uses a pool created by the caller, for example a pool with client certificates. The settings of that pool apply
    /// instead of [`connections`](Self::connections). Disable `jit` for the user of the pool (`ALTER ROLE … SET jit =
    /// off`), because JIT-compiling the statement that reads a thread takes far longer than executing it.
    pub async fn from_pool(self, pool: Pool) -> Result<Postgres, OpenError> {
        self.open(pool, "the given pool".to_owned()).await
    }

    async fn open(self, pool: Pool, database: String) -> Result<Postgres, OpenError> {
        let schema = Schema::new(&self.schema)
            .map_err(|problem| OpenError::Unreachable { database: database.clone(), problem })?;
        let here = format!("{database}, schema {}", schema.name());
        let unreachable = |error: PoolError| OpenError::Unreachable {
            database: database.clone(),
            problem: problem(&error),
        };
        let mut connection = pool.get().await.map_err(unreachable)?;
        let status = schema::prepare(&mut connection, &schema).await;
        status.map_err(|it| unreachable(it.into()))?.check(here, schema::NEWEST)?;
        drop(connection);
        let codec = Codec::new(self.max_value_bytes);
        #[cfg(feature = "encryption")]
        let codec = codec.with_keys(self.keys);
        let leases = Leases::new();
        Ok(Postgres(Arc::new(Inner { database, schema, codec, pool, leases })))
    }
}

/// An open database. Clones share the connections; dropping the last clone closes them.
///
/// One handle can serve a saver, a store and a cache, which then share the connections.
///
/// ```no_run
/// use graph_store::{Postgres, PostgresCache, PostgresSaver, PostgresStore};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Postgres::connect("postgresql://graphs:secret@db.example.org/graphs").await?;
/// let saver = PostgresSaver::new(&database);
/// let memory = PostgresStore::new(&database);
/// let cache = PostgresCache::new(&database);
/// // Pass them to a graph: `StateGraph::new().checkpointer(saver).store(memory).cache(cache)`.
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    database: String,
    schema: Schema,
    codec: Codec,
    pool: Pool,
    leases: Leases,
}

impl Postgres {
    /// Connects with the default settings and creates the tables if they are missing; see [`Settings::connect`].
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::settings().connect(url).await
    }

    /// Uses a pool created by the caller; see [`Settings::from_pool`].
    pub async fn from_pool(pool: Pool) -> Result<Self, OpenError> {
        Self::settings().from_pool(pool).await
    }

    /// Returns the default settings, which can be changed before connecting.
    pub fn settings() -> Settings {
        Settings {
            schema: "graph_store".to_owned(),
            connections: MAX_CONNECTIONS,
            max_value_bytes: MAX_VALUE_BYTES,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    /// Returns the address of the server and the name of the database, without the password.
    pub fn database(&self) -> &str {
        &self.0.database
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.0.codec
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.0.leases
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Replaces every `@.` in a statement with the name of our schema.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.0.schema.sql(statement)
    }

    /// Executes an idempotent statement. If the connection is lost, it is unknown whether the statement was
    /// executed, so the statement is retried.
    pub(crate) async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PoolError> {
        let sql = self.sql(statement);
        let mut backoff = RetryBackoff::default();
        loop {
            match self.try_query(&sql, params).await {
                Err(error) if backoff.wait_before_retry(&error).await => {}
                answer => return answer,
            }
        }
    }

    /// Executes a statement once, without retrying it.
    pub(crate) async fn query_once(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PoolError> {
        self.try_query(&self.sql(statement), params).await
    }

    async fn try_query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PoolError> {
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(sql).await?;
        Ok(connection.query(&statement, params).await?)
    }

    /// Returns a connection, which returns to the pool when it is dropped.
    pub(crate) async fn connection(&self) -> Result<Object, PoolError> {
        self.pool().get().await
    }

    pub(crate) fn database_error(&self, error: PoolError) -> DatabaseError {
        DatabaseError::new(&self.0.database, error)
    }
}

/// Retry state of an idempotent operation.
#[derive(Debug, Default)]
pub(crate) struct RetryBackoff {
    retries: usize,
}

impl RetryBackoff {
    /// Waits and returns true if the operation should be retried. This is the case if it failed because of the
    /// connection or a conflict, and if there are retries left.
    pub(crate) async fn wait_before_retry(&mut self, error: &PoolError) -> bool {
        (is_connection_lost(error) || is_conflict(error)) && self.wait().await
    }

    /// Waits and returns true if there are retries left.
    pub(crate) async fn wait(&mut self) -> bool {
        let Some(delay) = RETRY_DELAYS.get(self.retries) else { return false };
        self.retries += 1;
        tokio::time::sleep(*delay).await;
        true
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("database", &self.0.database)
            .field("schema", &self.0.schema.name())
            .finish_non_exhaustive()
    }
}
