//! The database: a pool of connections to one schema of a server.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, QueueMode, RecyclingMethod,
    Runtime,
};
use tokio::time::timeout;
use tokio_postgres::{Config, NoTls, Row, config::Host, types::ToSql};

use super::{
    failure::{DatabaseError, NO_ANSWER, is_conflict, is_lost, problem},
    lease::Leases,
    schema::{self, Found, Schema},
};
#[cfg(feature = "encryption")]
use crate::codec::Keys;
use crate::{
    codec::{Codec, MAX_VALUE_BYTES},
    error::OpenError,
};

/// How many connections are kept unless the settings say otherwise.
const CONNECTIONS: usize = 16;
/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a statement waits for a connection to become free.
const WAIT: Duration = Duration::from_secs(30);
/// How long to wait before each new try when a connection was lost.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// What a connection is set to. Once the tables have grown, the server overrates what it costs to read a thread, and
/// compiles that statement anew for each read: a read of less than a millisecond took 35.
const SET_UP: &str = "SET jit = off";

/// How a database is opened; made by [`Postgres::settings`].
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until `connect` is called"]
pub struct Settings {
    schema: String,
    connections: usize,
    max_value_bytes: usize,
    #[cfg(feature = "encryption")]
    keys: Option<Keys>,
}

impl Settings {
    /// Sets the schema that holds the tables: a name of its own for each set of threads in one database.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets how many connections the pool holds at most. Leases take one more.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.max(1);
        self
    }

    /// Sets how large one stored value may be.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Encrypts what is stored from now on. What lies there already stays as it is and can be read.
    ///
    /// Names are not encrypted: those of threads, namespaces, nodes' fields, runs and effects. It keeps what is
    /// stored secret; who can write to the tables can still put one stored value in another's place.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Connects to `postgresql://user:password@host:port/database`, and makes the tables if they are missing.
    ///
    /// Without TLS: see [`from_pool`](Self::from_pool).
    pub async fn connect(self, url: &str) -> Result<Postgres, OpenError> {
        let mut config = Config::from_str(url).map_err(|error| OpenError::Unreachable {
            // The address itself is not shown: nobody knows which part of it is the password.
            database: "at the given address".to_owned(),
            problem: format!(
                "{}; it should be like postgresql://user:password@host:port/database",
                problem(&error.into())
            ),
        })?;
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT);
        config.connect_timeout(patience);
        if config.get_application_name().is_none() {
            config.application_name("graph-store");
        }
        // A lost server should be noticed while a run waits for its answer.
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        let database = address(&config);
        // `Fast` asks the server nothing: a connection that broke is noticed when it is used, and replaced.
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, NoTls, manager_config))
            .max_size(self.connections)
            // The connection that was used last: what its process has at hand is warm, and the others may sleep.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CONNECT))
            .post_create(Hook::async_fn(move |connection, _| {
                // The pool's own time-out is over once the connection is made.
                let set_up = timeout(patience, connection.batch_execute(SET_UP));
                Box::pin(async {
                    let no_answer = |_| HookError::message(NO_ANSWER);
                    set_up.await.map_err(no_answer)?.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| OpenError::Unreachable {
                database: database.clone(),
                problem: error.to_string(),
            })?;
        self.open(pool, database).await
    }

    /// Uses connections of a pool that the caller made, with TLS say. Its own settings count, not
    /// [`connections`](Self::connections). Let its user have `jit` off (`ALTER ROLE … SET jit = off`): to compile the
    /// statement that reads a thread takes the server far longer than to read it.
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
        match schema::prepare(&mut connection, &schema)
            .await
            .map_err(|it| unreachable(it.into()))?
        {
            Found::Ours => {}
            Found::Foreign => return Err(OpenError::Foreign { database: here }),
            Found::TooNew(found) => {
                return Err(OpenError::TooNew { database: here, found, known: schema::NEWEST });
            }
        }
        drop(connection);
        let codec = Codec::new(self.max_value_bytes);
        #[cfg(feature = "encryption")]
        let codec = codec.with_keys(self.keys);
        let leases = Leases::new();
        Ok(Postgres(Arc::new(Inner { database, schema, codec, pool, leases })))
    }
}

/// Where a server is, in words, without the password.
fn address(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map_or_else(String::new, ToString::to_string),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    format!("{user}@{host}:{port}/{database}")
}

/// An open database. Cloning gives another handle to it; the last one dropped closes its connections.
///
/// One handle serves checkpoints, store and cache at once: they share its connections.
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
    /// Connects with the usual settings, and makes the tables if they are missing; see [`Settings::connect`].
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::settings().connect(url).await
    }

    /// Uses connections of a pool that the caller made, with TLS say.
    pub async fn from_pool(pool: Pool) -> Result<Self, OpenError> {
        Self::settings().from_pool(pool).await
    }

    /// The usual settings, to be changed before connecting.
    pub fn settings() -> Settings {
        Settings {
            schema: "graph_store".to_owned(),
            connections: CONNECTIONS,
            max_value_bytes: MAX_VALUE_BYTES,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    /// The server and the database, without the password.
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

    /// A statement on our tables, where `@.` stands before each of their names.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.0.schema.sql(statement)
    }

    /// Does a statement that may be done twice: where the connection is lost on the way, nobody knows whether
    /// it was done, and so it is done again.
    pub(crate) async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PoolError> {
        let sql = self.sql(statement);
        let mut again = Again::default();
        loop {
            match self.try_query(&sql, params).await {
                Err(error) if again.pause(&error).await => {}
                answer => return answer,
            }
        }
    }

    /// Does a statement once.
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

    /// A connection, which goes back to the pool when it is dropped.
    pub(crate) async fn connection(&self) -> Result<Object, PoolError> {
        self.pool().get().await
    }

    pub(crate) fn explain(&self, error: PoolError) -> DatabaseError {
        DatabaseError::new(&self.0.database, error)
    }
}

/// Whether work that may be done twice is done again.
#[derive(Debug, Default)]
pub(crate) struct Again {
    tries: usize,
}

impl Again {
    /// Waits a little and says yes, if it failed because of the connection or of somebody else's work, and not
    /// too often.
    pub(crate) async fn pause(&mut self, error: &PoolError) -> bool {
        match AGAIN.get(self.tries).filter(|_| is_lost(error) || is_conflict(error)) {
            Some(pause) => {
                self.tries += 1;
                tokio::time::sleep(*pause).await;
                true
            }
            None => false,
        }
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
