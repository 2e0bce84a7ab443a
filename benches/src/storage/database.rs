//! The databases for one row of the results: one for us and one for LangGraph, on the same disk or server.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::checkpoint::Checkpointer;
use graph_store::{PostgresSaver, SqliteSaver};
use graph_tests::postgres::Server;
use tokio::runtime::Handle;

use super::{disk, workload::Store};

/// Creates databases. Starts a server when one is needed.
#[derive(Debug)]
pub(crate) struct Databases<'a> {
    dir: &'a Path,
    runtime: Handle,
    server: Option<Result<Server, String>>,
    created: usize,
}

/// Two empty databases, one for our saver and one for LangGraph.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Our saver, which uses its own database.
    pub(crate) saver: Arc<dyn Checkpointer>,
    /// Path or URL of LangGraph's database.
    pub(crate) langgraph: String,
    /// Directory on the disk that contains both databases.
    pub(crate) dir: PathBuf,
    /// URL of another empty database on the same server; `None` if both databases are files.
    pub(crate) server: Option<String>,
}

impl<'a> Databases<'a> {
    /// Creates a factory for databases. Files are created in this directory, and the server is started on first
    /// use.
    pub(crate) fn new(dir: &'a Path, runtime: &Handle) -> Self {
        Self { dir, runtime: runtime.clone(), server: None, created: 0 }
    }

    /// Returns the runtime that the savers use.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Creates a pair of databases. Returns `None` if the server is not available.
    pub(crate) fn pair(&mut self, store: Store) -> io::Result<Option<Pair>> {
        match store {
            Store::Sqlite => self.files().map(Some),
            Store::Postgres => self.on_server(),
        }
    }

    /// Describes the disk of the server, or why the server is not available. Returns `None` if no server was
    /// needed.
    pub(crate) fn describe_server(&self) -> Option<String> {
        match self.server.as_ref()? {
            Ok(server) => Some(format!("PostgreSQL {}", disk::describe(server.dir()))),
            Err(problem) => Some(format!("PostgreSQL is not measured: {problem}")),
        }
    }

    fn files(&mut self) -> io::Result<Pair> {
        self.created += 1;
        let file = |whose: &str| self.dir.join(format!("{whose}-{}.db", self.created));
        let saver = SqliteSaver::open(file("engine")).map_err(io::Error::other)?;
        let langgraph = text(&file("langgraph"))?;
        let dir = self.dir.to_owned();
        Ok(Pair { saver: Arc::new(saver), langgraph, dir, server: None })
    }

    fn on_server(&mut self) -> io::Result<Option<Pair>> {
        // Enable fsync, because test servers run with `fsync=off` by default.
        let start = || Server::with_settings(&[("fsync", "on")]).map_err(|it| it.to_string());
        let Ok(server) = self.server.get_or_insert_with(start) else { return Ok(None) };
        let url = server.fresh_database();
        let saver =
            self.runtime.block_on(PostgresSaver::connect(&url)).map_err(io::Error::other)?;
        let dir = server.dir().to_owned();
        let langgraph = server.fresh_database();
        let server = Some(server.fresh_database());
        Ok(Some(Pair { saver: Arc::new(saver), langgraph, dir, server }))
    }
}

fn text(path: &Path) -> io::Result<String> {
    let text = path
        .to_str()
        .ok_or_else(|| io::Error::other("the path of the target directory is not UTF-8"))?;
    Ok(text.to_owned())
}
