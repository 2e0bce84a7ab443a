//! The floor of a run on a server: one `INSERT` of the same number of bytes for each commit. The server commits and
//! syncs each `INSERT`.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls, Statement};

use super::floor::CommitProfile;

/// A table without an index, and a connection to its server.
#[derive(Debug)]
pub(crate) struct Insert {
    client: Client,
    insert: Statement,
    commits: CommitProfile,
    runtime: Handle,
}

impl Insert {
    /// Connects to an empty database and creates the table.
    pub(crate) fn new(url: &str, commits: CommitProfile, runtime: &Handle) -> io::Result<Self> {
        let connect = async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            // The task of the connection ends when the client is dropped.
            runtime.spawn(connection);
            client.batch_execute("CREATE TABLE bare (body bytea NOT NULL)").await?;
            let insert = client.prepare("INSERT INTO bare VALUES ($1)").await?;
            Ok::<_, tokio_postgres::Error>((client, insert))
        };
        let (client, insert) = runtime.block_on(connect).map_err(io::Error::other)?;
        Ok(Self { client, insert, commits, runtime: runtime.clone() })
    }

    /// Performs all inserts of one run and returns the duration.
    pub(crate) fn run(&self) -> io::Result<Duration> {
        let block = vec![b'x'; self.commits.bytes];
        let insert_all = async {
            self.client.batch_execute("TRUNCATE bare").await?;
            let start = Instant::now();
            for _ in 0..self.commits.count {
                self.client.execute(&self.insert, &[&block]).await?;
            }
            Ok::<_, tokio_postgres::Error>(start.elapsed())
        };
        self.runtime.block_on(insert_all).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use graph_tests::postgres;
    use tokio::runtime::Runtime;

    use super::*;

    #[test]
    fn every_commit_inserts_a_row() {
        let Some(server) = postgres::shared() else { return };
        let (url, runtime) = (server.fresh_database(), Runtime::new().unwrap());
        let insert =
            Insert::new(&url, CommitProfile { count: 5, bytes: 30 }, runtime.handle()).unwrap();
        for _ in 0..2 {
            assert!(insert.run().unwrap() > Duration::ZERO);
            let found = server.sql(&url, "SELECT count(*), min(length(body)) FROM bare");
            assert_eq!(found.trim(), "5|30");
        }
    }
}
