//! The database file: one connection that writes, and others that read.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use super::{
    failure::{Failure, hint},
    lease::Owner,
    schema::{self, Found},
    writer::{Writer, closed},
};
#[cfg(feature = "encryption")]
use crate::codec::Keys;
use crate::{
    codec::{Codec, MAX_VALUE_BYTES},
    error::OpenError,
};

/// How many connections for reading are kept open.
const READERS: usize = 8;

/// When a commit is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Once the disk has it: it survives a loss of power.
    #[default]
    Full,
    /// Once the system has it: it survives a crash of the process. After a loss of power the last commits may
    /// be missing; the file is whole all the same.
    Normal,
}

/// How a database is opened; made by [`Sqlite::settings`].
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until `open` is called"]
pub struct Settings {
    synchronous: Synchronous,
    busy_timeout: Duration,
    max_value_bytes: usize,
    #[cfg(feature = "encryption")]
    keys: Option<Keys>,
}

impl Settings {
    /// Sets when a commit is answered.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets how long a write waits for another process to finish its own.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
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
    /// stored secret; who can write to the file can still put one stored value in another's place.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Opens the file, and makes it if it is missing.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, OpenError> {
        let given = path.as_ref();
        if is_special(given) {
            let problem = "it has to be a file; `MemorySaver` keeps threads in memory".to_owned();
            return Err(OpenError::Unreachable { database: given.display().to_string(), problem });
        }
        let mut connection = self.connect(given)?;
        // One name for the file, whatever way leads to it: other processes look for our owner's file beside it.
        let path = &*fs::canonicalize(given).map_err(|error| OpenError::Unreachable {
            database: given.display().to_string(),
            problem: error.to_string(),
        })?;
        match schema::prepare(&mut connection).map_err(|error| unreachable(path, &error))? {
            Found::Ours => {}
            Found::Foreign => {
                return Err(OpenError::Foreign { database: path.display().to_string() });
            }
            Found::TooNew(found) => {
                let database = path.display().to_string();
                return Err(OpenError::TooNew { database, found, known: schema::NEWEST });
            }
        }
        let codec = Codec::new(self.max_value_bytes);
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
        // These two cannot be changed later. To ask for the second waits for whoever writes, even if it is so already.
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
        // On macOS only this reaches the disk; elsewhere it does nothing.
        connection.pragma_update(None, "fullfsync", self.synchronous == Synchronous::Full)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }
}

/// Names that SQLite takes for something else than a file.
fn is_special(path: &Path) -> bool {
    path.as_os_str().is_empty() || path == ":memory:" || path.to_string_lossy().starts_with("file:")
}

fn unreachable(path: &Path, error: &rusqlite::Error) -> OpenError {
    let problem = format!("{error}{}", hint(error));
    OpenError::Unreachable { database: path.display().to_string(), problem }
}

/// An open database file. Cloning gives another handle to it; the last one dropped closes it.
///
/// One handle serves checkpoints, store and cache at once: they share the file and its commits.
#[derive(Clone)]
pub struct Sqlite(Arc<Inner>);

struct Inner {
    path: PathBuf,
    settings: Settings,
    codec: Codec,
    // These three are closed in this order: the last connection folds the log into the file, and who waits for our threads
    // gets them once all is written.
    // A std mutex: it is held for the moment of taking a connection out or putting it back.
    readers: Mutex<Vec<Connection>>,
    writer: Writer,
    owner: Owner,
}

impl Sqlite {
    /// Opens a file with the usual settings, and makes it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::settings().open(path)
    }

    /// The usual settings, to be changed before opening.
    pub fn settings() -> Settings {
        Settings {
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(10),
            max_value_bytes: MAX_VALUE_BYTES,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.0.codec
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.0.owner
    }

    /// For work that changes threads; all other is for [`write`](Self::write).
    pub(super) fn writer(&self) -> &Writer {
        &self.0.writer
    }

    /// Does work in a transaction, alone or with others; returns once it is committed.
    ///
    /// Work that fails is undone, and does not harm what is committed along with it.
    pub(crate) async fn write<T, R>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<R>> + Send + 'static,
    ) -> Result<T, Failure<R>>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        self.writer().write(|session| work(&session.connection), false).await
    }

    /// Reads in a transaction of its own, which sees one state of the database.
    pub(crate) async fn read<T, R>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<R>> + Send + 'static,
    ) -> Result<T, Failure<R>>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        self.read_alone(|connection| work(&*connection.unchecked_transaction()?)).await
    }

    /// Works on a connection of its own, without a transaction.
    pub(super) async fn read_alone<T, R>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<R>> + Send + 'static,
    ) -> Result<T, Failure<R>>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
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
