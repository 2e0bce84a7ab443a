//! A real PostgreSQL server for tests and measurements, alone in a folder of its own.
//!
//! A server must not outlive the process that started it, whatever ends that process: a kill and the end of
//! `main` run no destructors. So a watchdog owns the server and the folder, and ends both once this process
//! no longer holds the other end of a pipe.

mod programs;
mod watchdog;

use std::{
    env, fs,
    fs::OpenOptions,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
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

use self::{
    programs::{Programs, User},
    watchdog::Watchdog,
};

/// Gives the server that all tests of a binary share, or says which test is skipped for want of PostgreSQL.
///
/// Databases are what keeps tests apart: each takes its own by [`Server::fresh_database`].
/// A test that stops or sets up the server starts one of its own.
///
/// # Panics
///
/// If PostgreSQL is missing where the environment variable `GRAPH_REQUIRE_POSTGRES` is set, or does not start.
#[must_use]
pub fn shared() -> Option<&'static Server> {
    match started() {
        Ok(server) => Some(server),
        Err(StartError::Missing) if env::var_os("GRAPH_REQUIRE_POSTGRES").is_none() => {
            let test = thread::current().name().unwrap_or("a test").to_owned();
            // The handle itself: what goes through the macros is shown for failing tests alone.
            let _ = writeln!(io::stderr(), "SKIPPED: {test}: {}", StartError::Missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same server for a program, which has to say what is wrong and cannot skip anything.
pub fn started() -> Result<&'static Server, &'static StartError> {
    static SHARED: OnceLock<Result<Server, StartError>> = OnceLock::new();
    SHARED.get_or_init(Server::start).as_ref()
}

/// A PostgreSQL server on a free port of this machine, which lets everybody in.
///
/// Dropping it stops the server and removes all that it stored.
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    port: u16,
    url: String,
    n_databases: AtomicU64,
    /// One order at a time: a stop and a start belong together.
    watchdog: Mutex<Watchdog>,
    /// After the watchdog: it removes the folder as well, and only its death leaves that to us.
    folder: TempDir,
}

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no PostgreSQL on this machine.
    #[error(
        "PostgreSQL is not installed; `cargo xtask test` installs it, or install the package \
         `postgresql`, or name the folder of its programs in GRAPH_POSTGRES_BIN"
    )]
    Missing,
    /// Root asks for a server, and nobody is there to run it as.
    #[error(
        "PostgreSQL does not run as root, and there is no user `postgres`; make one by \
         `useradd --system postgres`"
    )]
    NoUser,
    /// The folder or the watchdog cannot be made.
    #[error("cannot make a place for PostgreSQL: {0}")]
    Place(#[from] io::Error),
    /// PostgreSQL itself failed.
    #[error("PostgreSQL cannot {step}; its log ends with:\n{log}")]
    Failed {
        /// What it was to do.
        step: &'static str,
        /// The last lines it wrote.
        log: String,
    },
}

impl Server {
    /// Starts a server that forgets what it stored when the machine fails, which makes it quick.
    ///
    /// What was committed still outlives [`restart_hard`](Self::restart_hard).
    pub fn start() -> Result<Self, StartError> {
        Self::with_settings(&[])
    }

    /// Starts a server with settings of `postgresql.conf`, which go before those that make it quick.
    ///
    /// `("fsync", "on")` gives one that stores as a real one does.
    pub fn with_settings(settings: &[(&str, &str)]) -> Result<Self, StartError> {
        Self::start_on(settings, free_port)
    }

    fn start_on(
        settings: &[(&str, &str)],
        mut next_port: impl FnMut() -> io::Result<u16>,
    ) -> Result<Self, StartError> {
        let programs = Programs::find().ok_or(StartError::Missing)?;
        let (folder, user) = place()?;
        let mut watchdog = Watchdog::start(&programs, folder.path(), user)?;
        let log = Log { path: folder.path().join("log") };
        if !watchdog.order("init")? {
            return Err(log.failure("make its data folder"));
        }
        configure(folder.path(), settings)?;
        for _ in 0..N_PORTS {
            let port = next_port()?;
            let before = log.text().len();
            if watchdog.order(&format!("start {port}"))? {
                return Ok(Self {
                    programs,
                    port,
                    url: url(port, "postgres"),
                    n_databases: AtomicU64::new(0),
                    watchdog: Mutex::new(watchdog),
                    folder,
                });
            }
            if !log.text()[before..].contains("could not bind") {
                break;
            }
        }
        Err(log.failure("start"))
    }

    /// The address of the database `postgres`, which every server has.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes an empty database and gives its address.
    ///
    /// # Panics
    ///
    /// If the server does not make it.
    #[must_use]
    #[track_caller]
    pub fn fresh_database(&self) -> String {
        let name = format!("fresh_{}", self.n_databases.fetch_add(1, Ordering::Relaxed));
        self.sql(&self.url, &format!("CREATE DATABASE {name}"));
        url(self.port, &name)
    }

    /// Removes a database that [`fresh_database`](Self::fresh_database) made, and who is connected to it.
    ///
    /// An empty database takes seven megabytes, so who makes hundreds should remove them.
    ///
    /// # Panics
    ///
    /// If the server does not remove it.
    #[track_caller]
    pub fn drop_database(&self, url: &str) {
        let name = url.rsplit('/').next().unwrap_or(url);
        self.sql(&self.url, &format!("DROP DATABASE {name} WITH (FORCE)"));
    }

    /// Runs statements on a database and gives the rows: one a line, with `|` between columns.
    ///
    /// # Panics
    ///
    /// If the server refuses one of them.
    #[track_caller]
    pub fn sql(&self, url: &str, statements: &str) -> String {
        let mut psql = self.programs.command("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statements]);
        let output = psql.output().expect("psql was there when the server was started");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{statements}` failed: {errors}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Stops the server as a crash would, without a word to its clients, and starts it on the same port.
    ///
    /// # Panics
    ///
    /// If it does not come back.
    #[track_caller]
    pub fn restart_hard(&self) {
        let mut watchdog = self.watchdog();
        let log = Log { path: self.folder.path().join("log") };
        let stopped = watchdog.order("stop").expect("the watchdog lives as long as the server");
        assert!(stopped, "{}", log.failure("stop"));
        for _ in 0..N_PORTS {
            let start = watchdog.order(&format!("start {}", self.port));
            if start.expect("the watchdog lives as long as the server") {
                return;
            }
            // A connection of somebody else may hold the port for a moment.
            thread::sleep(Duration::from_millis(200));
        }
        panic!("{}", log.failure("start again"));
    }

    /// The folder that holds all that is the server's.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many ports are tried: each may be taken between the look for it and the server's start.
const N_PORTS: usize = 10;

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn url(port: u16, database: &str) -> String {
    format!("postgresql://postgres@127.0.0.1:{port}/{database}")
}

/// Makes the folder, for the user that the server will run as.
fn place() -> Result<(TempDir, User), StartError> {
    let folder = folder_in(&env::temp_dir())?;
    if folder.path().metadata()?.uid() != 0 {
        return Ok((folder, User::Current));
    }
    let (uid, gid) = programs::postgres_user().ok_or(StartError::NoUser)?;
    // Root may keep its temporary files where nobody else gets in.
    let folder = if all_may_enter(folder.path())? { folder } else { folder_in("/tmp".as_ref())? };
    chown(folder.path(), Some(uid), Some(gid))?;
    Ok((folder, User::Other { uid, gid }))
}

fn folder_in(base: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("graph-pg-").tempdir_in(base)
}

/// Whether everybody gets as far as to the folder itself.
fn all_may_enter(folder: &Path) -> io::Result<bool> {
    for above in folder.canonicalize()?.ancestors().skip(1) {
        if above.metadata()?.permissions().mode() & 0o001 == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn configure(folder: &Path, settings: &[(&str, &str)]) -> io::Result<()> {
    let sockets = folder.to_string_lossy();
    let own = [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", &sockets),
        ("max_connections", "200"),
        ("fsync", "off"),
        // A client that connects to a server about to stop, and says nothing, holds the stop up for this long.
        ("authentication_timeout", "10s"),
    ];
    let mut file = OpenOptions::new().append(true).open(folder.join("data/postgresql.conf"))?;
    // Of two lines for one setting the last counts.
    for (name, value) in own.iter().chain(settings) {
        writeln!(file, "{name} = '{}'", value.replace('\'', "''"))?;
    }
    Ok(())
}

/// What PostgreSQL's programs wrote.
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
    use super::*;

    #[test]
    fn a_port_that_was_taken_meanwhile_is_passed_over() {
        if shared().is_none() {
            return;
        }
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = other.local_addr().unwrap().port();
        let mut ports = [taken, free_port().unwrap()].into_iter();
        let server = Server::start_on(&[], || Ok(ports.next().unwrap())).unwrap();
        assert_ne!(server.port, taken);
        assert_eq!(server.sql(server.url(), "SELECT 1"), "1");
    }
}
