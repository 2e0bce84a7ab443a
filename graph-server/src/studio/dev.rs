//! A server for development.

use std::{io, net::Ipv4Addr, path::PathBuf};

use axum::{response::Redirect, routing::get};
use tokio::net::TcpListener;

use super::page::routes;
use crate::{
    http::Guard,
    langgraph::{Graphs, LangGraphApi, OpenApiError},
    server::serve_until,
};

/// Port of LangGraph's development server, to which its clients connect by default.
const DEFAULT_PORT: u16 = 2024;
/// Largest size of a request body, in bytes.
const MAX_BODY: usize = 16 << 20;

/// Serves graphs with the studio and LangGraph's API on this machine, and prints the URL of the studio.
///
/// ```
/// use graph_core::{START, State, StateGraph};
/// use graph_server::langgraph::{Graphs, Schemas};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
/// let graphs = Graphs::in_memory().add("essays", essays, Schemas::default())?;
/// # // The port may be in use, and the server runs until it is stopped.
/// # let server = graph_server::DevServer::new(graphs).port(0).run();
/// # let is_serving = tokio::time::timeout(std::time::Duration::from_secs(1), server).await.is_err();
/// # assert!(is_serving);
/// # if is_serving { return Ok(()) }
/// # let graphs = Graphs::in_memory();
/// graph_server::dev(graphs).await?;
/// # Ok(()) }
/// ```
pub async fn dev(graphs: Graphs) -> Result<(), DevError> {
    DevServer::new(graphs).run().await
}

/// A server for development. It accepts connections only from this machine and requires no API key.
///
/// ```standalone_crate
/// use std::sync::Arc;
/// use graph_core::{START, State, StateGraph};
/// use graph_server::{
///     DevServer,
///     langgraph::{Graphs, Schemas},
/// };
/// use graph_store::{Sqlite, SqliteSaver, SqliteStore};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # std::env::set_current_dir(&dir)?;
/// // Threads and runs survive a restart, because both databases are files.
/// let database = Sqlite::open("threads.db")?;
/// let saver = Arc::new(SqliteSaver::new(&database));
/// let store = Arc::new(SqliteStore::new(&database));
/// let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
/// let graphs = Graphs::new(saver, store).add("essays", essays, Schemas::default())?;
/// let server = DevServer::new(graphs).port(8123).database("api.db");
/// # let server = server.port(0);
/// # let second = std::time::Duration::from_secs(1);
/// # assert!(tokio::time::timeout(second, server.run()).await.is_err());
/// # let server = DevServer::new(Graphs::in_memory());
/// # if second.is_zero() {
/// server.run().await?;
/// # }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct DevServer {
    graphs: Graphs,
    port: u16,
    database: PathBuf,
}

/// The error returned when a [`DevServer`] cannot start or stops with a failure.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// The port cannot be used.
    #[error(
        "cannot listen on 127.0.0.1:{port}: {source}; stop the other server or choose another port with \
         `DevServer::port`"
    )]
    Listen {
        /// The port.
        port: u16,
        /// The cause.
        source: io::Error,
    },
    /// The database of threads and runs cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenApiError),
    /// The server failed.
    #[error("cannot serve requests: {0}")]
    Serve(#[source] io::Error),
}

graph_core::readable_debug!(DevError);

impl DevServer {
    /// Creates a server on port 2024 that keeps the list of threads and runs in memory.
    pub fn new(graphs: Graphs) -> Self {
        Self { graphs, port: DEFAULT_PORT, database: PathBuf::from(":memory:") }
    }

    /// Sets the port. 0 chooses a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the database file of threads and runs, so that they survive a restart. The checkpointer of the graphs must
    /// then be persistent too.
    #[must_use]
    pub fn database(mut self, path: impl Into<PathBuf>) -> Self {
        self.database = path.into();
        self
    }

    /// Serves requests until the process ends.
    #[expect(clippy::print_stdout, reason = "shows the URL to the developer")]
    pub async fn run(self) -> Result<(), DevError> {
        let api = LangGraphApi::open(self.graphs, &self.database).await?;
        let start = get(async || Redirect::temporary("/studio"));
        let open = api.open_routes().merge(routes()).route("/", start);
        let guard = Guard::new().rate_limit(u32::MAX).local_origins().max_body(MAX_BODY);
        let guarded = guard.wrap(open, api.routes(), api.metrics());
        let listen = |source| DevError::Listen { port: self.port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.map_err(listen)?;
        println!("studio: http://{}/studio", listener.local_addr().map_err(listen)?);
        serve_until(listener, guarded, std::future::pending()).await.map_err(DevError::Serve)
    }
}
