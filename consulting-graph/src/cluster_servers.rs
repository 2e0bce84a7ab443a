//! The servers of a cluster, which decide how clients submit runs and how workers receive them.

use graph_cluster::{Client, ClusterError, PostgresQueue, Restate, RunStore, Worker};

#[derive(Debug, Clone)]
pub struct ClusterServers {
    /// URL of the database.
    pub database: String,
    /// The Restate server that assigns runs to workers. `None` if the workers claim runs from the database.
    pub restate: Option<Restate>,
}

impl ClusterServers {
    pub(crate) fn client(&self, store: RunStore) -> Client {
        match &self.restate {
            Some(restate) => Client::new(store, restate.clone()),
            None => Client::new(store, PostgresQueue::new()),
        }
    }

    /// Executes runs until `shutdown` completes, and then drains.
    pub(crate) async fn serve(
        self,
        worker: Worker,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ClusterError> {
        match self.restate {
            Some(restate) => worker.serve(restate, shutdown).await,
            None => worker.serve(PostgresQueue::new(), shutdown).await,
        }
    }
}
