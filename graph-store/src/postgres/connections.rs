//! Connections to a PostgreSQL server: a pool with TLS, which replaces lost connections, and notifications.
//!
//! The saver, the store and the cache use it. It is public for other crates that keep tables in the same database.

mod listener;
mod tls;
mod url;
mod verifier;

use std::{fmt, time::Duration};

use deadpool_postgres::{
    GenericClient, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, QueueMode,
    RecyclingMethod, Runtime,
};
use tokio::time::timeout;
use tokio_postgres::{Config, Row, config::Host, types::ToSql};

pub use self::listener::{Listener, Notification};
use self::tls::Tls;
use super::failure::{NO_ANSWER, problem};
use crate::error::OpenError;

/// Maximum time for establishing a connection. A busy server may need several seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a connection is considered lost if the server's machine does not acknowledge sent data.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that a statement waits for a free connection.
const POOL_TIMEOUT: Duration = Duration::from_secs(30);

/// Statement that is executed on each new connection. Once the tables have grown, the server overestimates the cost
/// of reading a thread and JIT-compiles the reading statement on every execution: a read that takes less than 1 ms
/// without JIT took 35 ms.
const CONNECTION_SETUP: &str = "SET jit = off";

/// A pool of connections to one database. Clones share the connections.
///
/// The URL selects the encryption with `sslmode`, as for PostgreSQL's own programs:
///
/// | `sslmode` | TLS | certificate of the server |
/// |---|---|---|
/// | `disable` | no | |
/// | `prefer` (default) | if the server supports it | not checked |
/// | `require` | yes | not checked; with `sslrootcert`, as for `verify-ca` |
/// | `verify-ca` | yes | in the file `sslrootcert`, or issued by an authority of the file |
/// | `verify-full` | yes | also issued for the host in the URL |
///
/// TLS 1.2 or 1.3 is used. A server that supports only TLS 1.0 or 1.1 needs `sslmode=disable`.
///
/// `sslrootcert` is the path of a file with certificates in PEM format. `verify-full` without it trusts the authorities
/// that the operating system trusts. Only modes that check the certificate protect from an attacker who can redirect
/// the connection. Client certificates and channel binding are not supported.
///
/// ```no_run
/// use graph_store::postgres::connections::{Connections, Notification};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgresql://app:secret@db.example.org/app?sslmode=verify-full&sslrootcert=/etc/ssl/db.crt";
/// let connections = Connections::open(url, "app", 8).await?;
/// let tables = "CREATE SCHEMA IF NOT EXISTS app;
///     CREATE TABLE IF NOT EXISTS app.job (id text PRIMARY KEY);
///     COMMENT ON SCHEMA app IS 'version 1'";
/// connections.create_tables("app", 1, tables).await?;
/// let _listener = connections.listen("app", |notification| match notification {
///     Notification::Connected => println!("read the table again"),
///     Notification::Payload(id) => println!("new job {id}"),
/// });
/// let add = "INSERT INTO app.job (id) VALUES ($1) RETURNING pg_notify('app', id)";
/// connections.query(add, &[&"job-7"]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Connections {
    pool: Pool,
    max_connections: usize,
    config: Config,
    tls: Tls,
    address: String,
}

impl Connections {
    /// Connects to `postgresql://user:password@host:port/database`. `application` is the name of the connections in
    /// `pg_stat_activity`, unless the URL contains one.
    ///
    /// The pool has at most `max_connections` connections, and each [listener](Self::listen) has one more.
    pub async fn open(
        url: &str,
        application: &str,
        max_connections: usize,
    ) -> Result<Self, OpenError> {
        let (mut config, tls) = url::parse(url).map_err(|problem| OpenError::Unreachable {
            // The URL is not shown, because the password cannot be located reliably in a malformed URL.
            database: "at the given URL".to_owned(),
            problem,
        })?;
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        config.connect_timeout(connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name(application);
        }
        // Detects that the server is lost while a run is waiting for a reply.
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        // Keepalives do not detect a lost connection while sent data is unacknowledged.
        config.tcp_user_timeout(ACKNOWLEDGE_TIMEOUT);
        let address = address(&config);
        let pool = pool(&config, &tls, max_connections, connect_timeout);
        let unreachable = |problem| OpenError::Unreachable { database: address.clone(), problem };
        let pool = pool.map_err(|error| unreachable(error.to_string()))?;
        drop(pool.get().await.map_err(|error| unreachable(problem(&error)))?);
        Ok(Self { pool, max_connections, config, tls, address })
    }

    /// Returns the address of the server and the name of the database, without the password.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns a connection, which returns to the pool when it is dropped.
    pub async fn get(&self) -> Result<Object, PoolError> {
        self.pool.get().await
    }

    /// Executes a statement. If a pooled connection turns out to be closed, tries the next one, because a restart of
    /// the server closes all pooled connections. The statement must therefore be idempotent.
    pub async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PoolError> {
        for _ in 0..self.max_connections {
            match query_once(&self.get().await?, statement, params).await {
                Err(error) if error.is_closed() => {}
                result => return Ok(result?),
            }
        }
        Ok(query_once(&self.get().await?, statement, params).await?)
    }

    /// Executes a statement like [`query`](Self::query), and returns its first row.
    pub async fn query_opt(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, PoolError> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }

    /// Creates or updates the tables of a schema with `statements`, in one transaction, unless the schema already has
    /// the version `version`. The last statement must store the version: `COMMENT ON SCHEMA app IS 'version 1'`. If
    /// several processes start at the same time, only one of them executes the statements.
    ///
    /// Fails with [`OpenError::TooNew`] if the schema has a later version.
    pub async fn create_tables(
        &self,
        schema: &str,
        version: u32,
        statements: &str,
    ) -> Result<(), OpenError> {
        let found = async {
            let mut connection = self.get().await?;
            let found = stored_version(&connection, schema).await?;
            if found >= version {
                return Ok(found);
            }
            // Another process may be creating the tables at the same time, so check again under a lock. Executing the
            // statements a second time would lock tables that the other process uses already, which can lead to
            // deadlocks.
            let transaction = connection.transaction().await?;
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended('tables of ' || $1, 0))";
            transaction.execute(lock, &[&schema]).await?;
            let found = stored_version(&transaction, schema).await?;
            if found < version {
                transaction.batch_execute(statements).await?;
                transaction.commit().await?;
            }
            Ok(found)
        };
        match found.await {
            Ok(found) if found > version => Err(OpenError::TooNew {
                database: format!("{}, schema {schema}", self.address),
                found: found.into(),
                supported: version.into(),
            }),
            Ok(_) => Ok(()),
            Err(error) => {
                let (database, problem) = (self.address.clone(), problem(&error));
                Err(OpenError::Unreachable { database, problem })
            }
        }
    }

    /// Receives the notifications of a channel on a separate connection, until the listener is dropped. A lost
    /// connection is opened again.
    pub fn listen(
        &self,
        channel: &'static str,
        receive: impl Fn(Notification<'_>) + Send + Sync + 'static,
    ) -> Listener {
        Listener::start(self.config.clone(), self.tls.clone(), channel, receive)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("address", &self.address).finish_non_exhaustive()
    }
}

fn pool(
    config: &Config,
    tls: &Tls,
    max_connections: usize,
    connect_timeout: Duration,
) -> Result<Pool, deadpool_postgres::BuildError> {
    // `Fast` sends no test query. A broken connection is detected when it is used, and is then replaced.
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config.clone(), tls.clone(), manager_config))
        .max_size(max_connections)
        // LIFO order reuses the most recently used connection, whose server process has warm caches. The other
        // connections stay idle.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(POOL_TIMEOUT))
        .create_timeout(Some(connect_timeout))
        .post_create(Hook::async_fn(move |connection, _| {
            // The pool's own timeout covers only establishing the connection, not its setup.
            let set_up = timeout(connect_timeout, connection.batch_execute(CONNECTION_SETUP));
            Box::pin(async {
                let no_answer = |_| HookError::message(NO_ANSWER);
                set_up.await.map_err(no_answer)?.map_err(HookError::Backend)
            })
        }))
        .build()
}

async fn query_once(
    connection: &Object,
    statement: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = connection.prepare_cached(statement).await?;
    connection.query(&statement, params).await
}

/// Returns the version of a schema, or zero if the schema does not exist or has none.
async fn stored_version(
    client: &impl GenericClient,
    schema: &str,
) -> Result<u32, tokio_postgres::Error> {
    // `obj_description(to_regnamespace($1), ...)` may use schemas that the connection has cached, and then misses a
    // schema that another connection has created since.
    let select =
        "SELECT d.description FROM pg_namespace n JOIN pg_description d ON d.objoid = n.oid
        WHERE n.nspname = $1 AND d.classoid = 'pg_namespace'::regclass";
    let comment = client.query_opt(select, &[&schema]).await?;
    let comment: Option<String> = comment.map(|it| it.try_get(0)).transpose()?;
    Ok(comment.as_deref().map_or(0, version_number))
}

/// Returns the number in the text of a schema's version, or zero if the text contains none.
fn version_number(text: &str) -> u32 {
    text.strip_prefix("version ").and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Returns the address of the server, without the password.
fn address(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    format!("{user}@{host}:{port}/{database}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

    use super::Connections;

    #[tokio::test]
    async fn connecting_times_out_if_the_server_stops_responding() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let url = format!("postgresql://u@{address}/d?connect_timeout=1&sslmode=disable");
        tokio::spawn(async move {
            let mut greeted = Vec::new();
            while let Ok((mut connection, _)) = server.accept().await {
                // The messages `AuthenticationOk` and `ReadyForQuery`, which complete the login.
                let _ = connection.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await;
                greeted.push(connection);
            }
        });
        let connect = timeout(Duration::from_secs(60), Connections::open(&url, "test", 1));
        let error = connect
            .await
            .expect("the connection attempt ends before the test's timeout")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the server did not respond in time; check that the server is running"),
            "{error}"
        );
    }
}
