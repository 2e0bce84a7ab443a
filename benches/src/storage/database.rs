//! The databases of a row: one of ours and one of LangGraph's, on the same disk or the same server.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::checkpoint::Checkpointer;
use graph_store::{PostgresSaver, SqliteSaver};
use graph_tests::postgres::Server;
use tokio::runtime::Handle;

use super::{Store, disk};

/// Makes databases, and starts the server that some of them need.
#[derive(Debug)]
pub struct Databases<'a> {
    dir: &'a Path,
    runtime: Handle,
    server: Option<Result<Server, String>>,
    created: usize,
}

/// Two empty databases.
#[derive(Debug)]
pub struct Pair {
    /// OurCosts.
    pub saver: Arc<dyn Checkpointer>,
    /// Where LangGraph finds its own: a path or an address.
    pub theirs: String,
    /// A folder on the disk that holds both.
    pub dir: PathBuf,
    /// The address of an empty database on their server, if they have one.
    pub server: Option<String>,
}

impl<'a> Databases<'a> {
    /// Files go into this folder; the server is started when it is needed.
    pub fn new(dir: &'a Path, runtime: &Handle) -> Self {
        Self { dir, runtime: runtime.clone(), server: None, created: 0 }
    }

    /// What runs the savers.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Makes a pair; `None` where there is no server to make it on.
    pub fn pair(&mut self, store: Store) -> io::Result<Option<Pair>> {
        match store {
            Store::Sqlite => self.files().map(Some),
            Store::Postgres => self.on_server(),
        }
    }

    /// Says why there is no server, where one was wanted, or that it does not lie on a disk.
    pub fn about_server(&self) -> Option<String> {
        match self.server.as_ref()? {
            Ok(server) => Some(format!("PostgreSQL {}", disk::describe(server.dir()))),
            Err(problem) => Some(format!("PostgreSQL is not measured: {problem}")),
        }
    }

    fn files(&mut self) -> io::Result<Pair> {
        self.created += 1;
        let file = |whose: &str| self.dir.join(format!("{whose}-{}.db", self.created));
        let saver = SqliteSaver::open(file("ours")).map_err(io::Error::other)?;
        let theirs = text(&file("theirs"))?;
        let dir = self.dir.to_owned();
        Ok(Pair { saver: Arc::new(saver), langgraph, dir, server: None })
    }

    fn on_server(&mut self) -> io::Result<Option<Pair>> {
        // A server for tests does not sync.
        let start = || Server::with_settings(&[("fsync", "on")]).map_err(|it| it.to_string());
        let Ok(server) = self.server.get_or_insert_with(start) else { return Ok(None) };
        let url = server.fresh_database();
        let saver =
            self.runtime.block_on(PostgresSaver::connect(&url)).map_err(io::Error::other)?;
        let dir = server.dir().to_owned();
        let theirs = server.fresh_database();
        let server = Some(server.fresh_database());
        Ok(Some(Pair { saver: Arc::new(saver), langgraph, dir, server }))
    }
}

fn text(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or_else(|| io::Error::other("the target folder is not UTF-8"))?;
    Ok(text.to_owned())
}
