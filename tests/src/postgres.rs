//! A PostgreSQL server for tests and benchmarks, which runs in its own temporary directory.
//!
//! The server must not outlive the process that started it, even if that process is killed and runs no destructors.
//! A watchdog process therefore owns the server and its directory. It removes both once this process closes its end
//! of a pipe.

mod programs;
mod watchdog;

use std::{
    env, fs,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tempfile::TempDir;
use test_support::ports::free_port;

use self::{
    programs::{Programs, User},
    watchdog::Watchdog,
};

/// Returns the server that all tests in a binary share. If PostgreSQL is not installed, prints which test is
/// skipped and returns `None`.
///
/// To isolate tests from each other, each test uses its own database from [`Server::fresh_database`]. A test that
/// stops or configures the server starts its own server.
///
/// # Panics
///
/// Panics if PostgreSQL does not start, or if it is not installed and the environment variable
/// `GRAPH_REQUIRE_POSTGRES` is set.
pub fn shared() -> Option<&'static Server> {
    match shared_or_error() {
        Ok(server) => Some(server),
        Err(StartError::Missing) => {
            test_support::skip("GRAPH_REQUIRE_POSTGRES", &StartError::Missing.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Creates an empty database on the [`shared`] server and returns its URL.
pub fn fresh_database() -> Option<String> {
    Some(shared()?.fresh_database())
}

/// Returns the shared server, or the error that prevented it from starting. For programs that cannot skip a test.
pub fn shared_or_error() -> Result<&'static Server, &'static StartError> {
    static SHARED: OnceLock<Result<Server, StartError>> = OnceLock::new();
    SHARED.get_or_init(Server::start).as_ref()
}

/// A PostgreSQL server that listens on a free local port and accepts every connection.
///
/// Dropping it stops the server and deletes its data.
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    port: u16,
    url: String,
    n_databases: AtomicU64,
    /// The watchdog. It is in a mutex so that no other command can come between a stop and the start that follows it.
    watchdog: Mutex<Watchdog>,
    /// Directory of the server. It is declared after the watchdog so that it is dropped last. By then, the watchdog has
    /// normally deleted the directory.
    dir: TempDir,
}

/// The error returned when the server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// PostgreSQL is not installed.
    #[error(
        "PostgreSQL is not installed; run `cargo xtask test`, install the package \
         `postgresql`, or set GRAPH_POSTGRES_BIN to the directory of its programs"
    )]
    Missing,
    /// The process runs as root, and the user `postgres`, as which the server would run, does not exist.
    #[error(
        "PostgreSQL cannot run as root and the user `postgres` does not exist; create it with \
         `useradd --system postgres`"
    )]
    NoUser,
    /// The directory or the watchdog cannot be created.
    #[error("cannot create a directory for PostgreSQL: {0}")]
    Setup(#[from] io::Error),
    /// A PostgreSQL program failed.
    #[error("PostgreSQL cannot {step}; its log ends with:\n{log}")]
    Failed {
        /// The operation that failed.
        step: &'static str,
        /// Last lines of PostgreSQL's log.
        log: String,
    },
}

impl Server {
    /// Starts a server with `fsync=off`, which is fast but does not protect against power failures.
    ///
    /// Committed data nevertheless survives [`crash_and_restart`](Self::crash_and_restart).
    pub fn start() -> Result<Self, StartError> {
        Self::with_settings(&[])
    }

    /// Starts a server. `settings` are written to `postgresql.conf` and override the defaults.
    ///
    /// With the setting `("fsync", "on")`, the server is as durable as in production.
    pub fn with_settings(settings: &[(&str, &str)]) -> Result<Self, StartError> {
        Self::start_on(settings, free_port)
    }

    fn start_on(
        settings: &[(&str, &str)],
        mut next_port: impl FnMut() -> u16,
    ) -> Result<Self, StartError> {
        let programs = Programs::find().ok_or(StartError::Missing)?;
        let (dir, user) = create_dir()?;
        let mut watchdog = Watchdog::start(&programs, dir.path(), user)?;
        let log = Log { path: dir.path().join("log") };
        if !watchdog.send_command("init")? {
            return Err(log.failure("initialize its data directory"));
        }
        configure(dir.path(), settings)?;
        for _ in 0..PORT_ATTEMPTS {
            let port = next_port();
            let before = log.text().len();
            if watchdog.send_command(&format!("start {port}"))? {
                return Ok(Self {
                    programs,
                    port,
                    url: url(port, "postgres"),
                    n_databases: AtomicU64::new(0),
                    watchdog: Mutex::new(watchdog),
                    dir,
                });
            }
            if !log.text()[before..].contains("could not bind") {
                break;
            }
        }
        Err(log.failure("start"))
    }

    /// Returns the URL of the database `postgres`, which always exists.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    ///
    /// Panics if the server fails to create the database.
    #[track_caller]
    pub fn fresh_database(&self) -> String {
        let name = format!("fresh_{}", self.n_databases.fetch_add(1, Ordering::Relaxed));
        self.sql(&self.url, &format!("CREATE DATABASE {name}"));
        url(self.port, &name)
    }

    /// Drops a database that was created by [`fresh_database`](Self::fresh_database), and closes its connections.
    ///
    /// An empty database takes seven megabytes, so a caller that creates hundreds of databases should drop them.
    ///
    /// # Panics
    ///
    /// Panics if the server fails to drop the database.
    #[track_caller]
    pub fn drop_database(&self, url: &str) {
        let name = url.rsplit('/').next().unwrap_or(url);
        self.sql(&self.url, &format!("DROP DATABASE {name} WITH (FORCE)"));
    }

    /// Executes SQL statements on a database. Returns one line per row, with the columns separated by `|`.
    ///
    /// # Panics
    ///
    /// Panics if a statement fails.
    #[track_caller]
    pub fn sql(&self, url: &str, statements: &str) -> String {
        let mut psql = self.programs.command("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statements]);
        let output = psql.output().expect("psql was there when the server was started");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{statements}` failed: {errors}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Stops the server immediately, as in a crash, and starts it again on the same port.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start again.
    #[track_caller]
    pub fn crash_and_restart(&self) {
        let mut watchdog = self.watchdog();
        let log = Log { path: self.dir.path().join("log") };
        let stopped =
            watchdog.send_command("stop").expect("the watchdog lives as long as the server");
        assert!(stopped, "{}", log.failure("stop"));
        for _ in 0..PORT_ATTEMPTS {
            let start = watchdog.send_command(&format!("start {}", self.port));
            if start.expect("the watchdog lives as long as the server") {
                return;
            }
            // Retry, because another connection may occupy the server's port for a moment.
            thread::sleep(Duration::from_millis(200));
        }
        panic!("{}", log.failure("restart"));
    }

    /// Returns the directory that contains all files of the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of ports to try. Another process may take a free port before the server binds it.
const PORT_ATTEMPTS: usize = 10;

fn url(port: u16, database: &str) -> String {
    format!("postgresql://postgres@127.0.0.1:{port}/{database}")
}

/// Creates the server's directory, which belongs to the user that runs the server.
fn create_dir() -> Result<(TempDir, User), StartError> {
    let dir = temp_dir_in(&env::temp_dir())?;
    if dir.path().metadata()?.uid() != 0 {
        return Ok((dir, User::Current));
    }
    let (uid, gid) = programs::postgres_user().ok_or(StartError::NoUser)?;
    // The temporary directory of the root user may be inaccessible to other users.
    let dir = if is_reachable_by_all(dir.path())? { dir } else { temp_dir_in("/tmp".as_ref())? };
    chown(dir.path(), Some(uid), Some(gid))?;
    Ok((dir, User::Other { uid, gid }))
}

fn temp_dir_in(base: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("graph-pg-").tempdir_in(base)
}

/// Returns whether every user can reach the directory.
fn is_reachable_by_all(dir: &Path) -> io::Result<bool> {
    for above in dir.canonicalize()?.ancestors().skip(1) {
        if above.metadata()?.permissions().mode() & 0o001 == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn configure(dir: &Path, settings: &[(&str, &str)]) -> io::Result<()> {
    let sockets = dir.to_string_lossy();
    let defaults = [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", &sockets),
        ("max_connections", "200"),
        ("fsync", "off"),
        // If a client connects during a shutdown and does not authenticate, it delays the shutdown by this time.
        ("authentication_timeout", "30s"),
    ];
    let mut file = OpenOptions::new().append(true).open(dir.join("data/postgresql.conf"))?;
    // If a setting occurs more than once, the last line takes precedence.
    for (name, value) in defaults.iter().chain(settings) {
        writeln!(file, "{name} = '{}'", value.replace('\'', "''"))?;
    }
    Ok(())
}

/// The output of PostgreSQL's programs.
struct Log {
    path: PathBuf,
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.path).unwrap_or_default()).into_owned()
    }

    fn failure(&self, step: &'static str) -> StartError {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        StartError::Failed { step, log: lines[lines.len().saturating_sub(20)..].join("\n") }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn occupied_port_is_skipped() {
        if shared().is_none() {
            return;
        }
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = other.local_addr().unwrap().port();
        let mut ports = [taken, free_port()].into_iter();
        let server = Server::start_on(&[], || ports.next().unwrap()).unwrap();
        assert_ne!(server.port, taken);
        assert_eq!(server.sql(server.url(), "SELECT 1"), "1");
    }
}
