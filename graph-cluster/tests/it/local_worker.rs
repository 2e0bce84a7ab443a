//! A worker in this process, for graphs that the worker processes do not have.

use std::net::{Ipv4Addr, SocketAddr};

use graph_cluster::{ClusterError, PostgresQueue, Restate, RunStore, Worker};
use test_support::ports::free_port;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::cluster::{Cluster, LONG_LEASE};

pub(crate) struct LocalWorker {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ClusterError>>,
}

impl LocalWorker {
    /// Starts a worker with the scheduler of the cluster, and waits until it reports.
    pub(crate) async fn start(
        cluster: &Cluster,
        id: &str,
        configure: impl FnOnce(Worker) -> Worker,
    ) -> Self {
        let store = RunStore::connect(&cluster.database).await.expect("the database is running");
        let worker = configure(Worker::new(store).id(id).lease(LONG_LEASE));
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let task = match &cluster.restate {
            None => tokio::spawn(worker.serve(PostgresQueue::new(), stopped)),
            Some(server) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
                let restate = Restate::new(&server.ingress).expect("the address is valid");
                server.workers.add(address);
                tokio::spawn(worker.serve(restate.listen(address), stopped))
            }
        };
        while !cluster.workers().await.iter().any(|it| it == id) {
            assert!(!task.is_finished(), "{id} ended before it was ready");
            tokio::task::yield_now().await;
        }
        if let Some(server) = &cluster.restate {
            server.register().await;
        }
        Self { stop, task }
    }

    /// Drains the worker and waits for its end.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("the worker does not panic").expect("the worker drains");
    }

    /// Ends the worker without draining it. With `PostgresQueue`, its runs stop where they are.
    pub(crate) async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|it| it.is_cancelled()));
    }
}
