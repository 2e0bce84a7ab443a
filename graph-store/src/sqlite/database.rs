//! The database file: one connection for writing and a pool of connections for reading.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use super::{
    failure::{Failure, hint},
    owner::Owner,
    schema,
    writer::{Writer, closed},
};
#[cfg(feature = "encryption")]
use crate::codec::Keys;
use crate::{
    codec::{Codec, MAX_VALUE_BYTES},
    error::OpenError,
};

/// Maximum number of idle read connections.
const READERS: usize = 8;

/// Determines when a commit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// A commit returns once the data is on the disk, so it survives a power failure.
    #[default]
    Full,
    /// A commit returns once the operating system has the data, so it survives a crash of the process. A power
    /// failure can lose the most recent commits, but does not damage the file.
    Normal,
}

/// Settings for opening a database. Create them with [`Sqlite::settings`].
///
/// ```
/// use std::time::Duration;
/// use graph_store::{Sqlite, sqlite::Synchronous};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("threads.db");
/// let database = Sqlite::settings()
///     .synchronous(Synchronous::Normal)
///     .busy_timeout(Duration::from_secs(120))
///     .open(path)?;
/// assert!(database.path().ends_with("threads.db"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings have no effect until `open` is called"]
pub struct Settings {
    synchronous: Synchronous,
    busy_timeout: Duration,
    max_value_bytes: usize,
    #[cfg(feature = "compression")]
    compresses: bool,
    #[cfg(feature = "encryption")]
    keys: Option<Keys>,
}

impl Settings {
    /// Sets when a commit returns; see [`Synchronous`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets the maximum time that a write waits for another process to finish writing.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the maximum size of one stored value, in bytes.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Compresses values that are written from now on, unless they are small or encrypted. Values with much text
    /// become several times smaller, and writing them takes more CPU time. Existing values stay as they are and remain
    /// readable; programs without the feature `compression` cannot read compressed values.
    #[cfg(feature = "compression")]
    pub fn compress(mut self) -> Self {
        self.compresses = true;
        self
    }

    /// Encrypts all values that are written from now on. Existing unencrypted values stay as they are and remain
    /// readable.
    ///
    /// The names of threads, namespaces, fields, runs and effects are not encrypted. Encryption keeps values
    /// secret, but it does not prevent an attacker with write access to the file from swapping stored values.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Opens the file, and creates it if it is missing.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, OpenError> {
        let given = path.as_ref();
        if is_special(given) {
            let problem =
                "the path must specify a file; use `MemorySaver` to keep threads in memory"
                    .to_owned();
            return Err(OpenError::Unreachable { database: given.display().to_string(), problem });
        }
        let mut connection = self.connect(given)?;
        // Resolves symbolic links, because other processes look for our owner file next to the file that the link
        // points to.
        let path = &*fs::canonicalize(given).map_err(|error| OpenError::Unreachable {
            database: given.display().to_string(),
            problem: error.to_string(),
        })?;
        let status = schema::prepare(&mut connection).map_err(|error| unreachable(path, &error))?;
        status.check(path.display().to_string(), schema::NEWEST)?;
        let codec = Codec::new(self.max_value_bytes);
        #[cfg(feature = "compression")]
        let codec = codec.with_compression(self.compresses);
        #[cfg(feature = "encryption")]
        let codec = codec.with_keys(self.keys.clone());
        let owner = Owner::new(path)?;
        let writer = Writer::start(connection, self.busy_timeout).map_err(|problem| {
            OpenError::Unreachable { database: path.display().to_string(), problem }
        })?;
        Ok(Sqlite(Arc::new(Inner {
            path: path.to_owned(),
            settings: self,
            codec,
            readers: Mutex::default(),
            writer,
            owner,
        })))
    }

    fn connect(&self, path: &Path) -> Result<Connection, OpenError> {
        self.try_connect(path, OpenFlags::SQLITE_OPEN_CREATE)
            .map_err(|error| unreachable(path, &error))
    }

    fn try_connect(&self, path: &Path, create: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(self.busy_timeout)?;
        // These two settings only take effect on an empty file. On any other file they are skipped, because setting
        // `auto_vacuum` waits for the current writer even if the value does not change.
        if connection.pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0))? == 0 {
            connection.pragma_update(None, "page_size", 4_096)?;
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match self.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // Required on macOS to flush the disk's own cache. On other systems, this setting has no effect.
        connection.pragma_update(None, "fullfsync", self.synchronous == Synchronous::Full)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }
}

/// Returns whether SQLite would interpret the path as something other than the name of a file.
fn is_special(path: &Path) -> bool {
    path.as_os_str().is_empty() || path == ":memory:" || path.to_string_lossy().starts_with("file:")
}

fn unreachable(path: &Path, error: &rusqlite::Error) -> OpenError {
    let problem = format!("{error}{}", hint(error));
    OpenError::Unreachable { database: path.display().to_string(), problem }
}

/// An open database file. Clones share the file; dropping the last clone closes it.
///
/// One handle can serve a saver, a store and a cache, which then share the file and commit together.
///
/// ```
/// use graph_core::store::Store;
/// use graph_store::{Sqlite, SqliteSaver, SqliteStore};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("agent.db");
/// let database = Sqlite::open(path)?;
/// let saver = SqliteSaver::new(&database);
/// let memory = SqliteStore::new(&database);
///
/// memory.put(&["users"], "ada", json!({"language": "Rust"})).await?;
/// let sizes = saver.sizes().await?;
/// assert_eq!((sizes.threads, sizes.items), (0, 1));
/// assert!(database.verify().await?.is_empty(), "the file is damaged");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Sqlite(Arc<Inner>);

struct Inner {
    path: PathBuf,
    settings: Settings,
    codec: Codec,
    // Fields are dropped in declaration order, and the order of the next three matters: the readers close first; then
    // the writer closes, which as the last connection copies the WAL into the file; then `owner` releases its lock,
    // which lets other processes take over our threads.
    //
    // The mutex of `readers` is locked only while a connection is taken from the pool or returned to it.
    readers: Mutex<Vec<Connection>>,
    writer: Writer,
    owner: Owner,
}

impl Sqlite {
    /// Opens a file with the default settings, and creates it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::settings().open(path)
    }

    /// Returns the default settings, which can be changed before opening a file.
    pub fn settings() -> Settings {
        Settings {
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(60),
            max_value_bytes: MAX_VALUE_BYTES,
            #[cfg(feature = "compression")]
            compresses: false,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    /// Returns the canonical path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.0.codec
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.0.owner
    }

    /// Returns the writer, for work that may change threads and must therefore keep the writer's cache consistent. All
    /// other work uses [`write`](Self::write).
    pub(super) fn writer(&self) -> &Writer {
        &self.0.writer
    }

    /// Runs work in a transaction, possibly together with other work, and returns once the transaction is
    /// committed.
    ///
    /// If the work fails, it is rolled back without affecting other work in the same transaction.
    pub(crate) async fn write<T: Send + 'static, R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<R>> + Send + 'static,
    ) -> Result<T, Failure<R>> {
        self.writer().write(|session| work(&session.connection), false).await
    }

    /// Runs work in a separate read transaction, which sees one consistent state of the database.
    pub(crate) async fn read<T: Send + 'static, R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<R>> + Send + 'static,
    ) -> Result<T, Failure<R>> {
        self.read_without_transaction(|connection| work(&*connection.unchecked_transaction()?))
            .await
    }

    /// Runs work on a read connection without a transaction.
    pub(super) async fn read_without_transaction<T: Send + 'static, R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<R>> + Send + 'static,
    ) -> Result<T, Failure<R>> {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let connection = this.reader()?;
            let result = work(&connection);
            this.put_back(connection);
            result
        });
        match done.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(closed().into()),
        }
    }

    fn reader(&self) -> rusqlite::Result<Connection> {
        if let Some(connection) = self.lock_readers().pop() {
            return Ok(connection);
        }
        let connection = self.0.settings.try_connect(&self.0.path, OpenFlags::empty())?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    fn put_back(&self, connection: Connection) {
        let mut readers = self.lock_readers();
        if readers.len() < READERS {
            readers.push(connection);
        }
    }

    fn lock_readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.0.path).finish_non_exhaustive()
    }
}
