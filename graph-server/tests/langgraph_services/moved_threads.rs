//! Threads that the operator moves to another team while a client changes or copies their checkpoints.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::{checkpoint::MemorySaver, store::InMemoryStore};
use graph_server::{
    http::KeyHash,
    langgraph::{ApiOptions, Graphs},
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    auth::{guard, user},
    authorize::TeamMetadata,
    graphs::add_all,
    server::Server,
};

/// Time for which the operator's request is expected to wait.
const WAIT: Duration = Duration::from_millis(300);

/// Pauses the next change of a checkpointer.
#[derive(Debug)]
struct StopChange {
    stops: AtomicBool,
    /// Sends the sender that resumes the paused change.
    stopped: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

#[async_trait]
impl WriteHook for StopChange {
    async fn before_change(&self) {
        if self.stops.swap(false, Ordering::AcqRel) {
            let (resume, resumed) = oneshot::channel();
            self.stopped.send(resume).unwrap();
            resumed.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_moved_after_the_requests_of_clients_that_see_it() {
    let (stopped, mut changes) = mpsc::unbounded_channel();
    let hook = StopChange { stops: AtomicBool::new(false), stopped };
    let saver = Arc::new(HookedSaver::new(Arc::new(MemorySaver::new()), hook));
    let checkpointer = saver.clone();
    let server = Server::start_with(
        ApiOptions::default(),
        guard().key(KeyHash::of("key of operator")),
        |_| add_all(Graphs::new(checkpointer, Arc::new(InMemoryStore::new()))).unwrap(),
        |api| api.authorizer(TeamMetadata),
    )
    .await;
    let (ada, operator) = (user(&server, "ada"), user(&server, "operator"));
    let tiny = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    for request in ["state", "copy", "prune"] {
        let thread = ada.new_thread().await;
        assert_eq!(ada.post(&format!("{thread}/runs/wait"), tiny.clone()).await.0, 200);
        let id = thread.rsplit('/').next().unwrap();
        let (path, body) = match request {
            "state" => (format!("{thread}/state"), json!({ "values": { "value": "y" } })),
            "copy" => (format!("{thread}/copy"), json!({})),
            _ => {
                let body = json!({ "thread_ids": [id], "strategy": "keep_latest" });
                ("/threads/prune".to_owned(), body)
            }
        };
        saver.hook().stops.store(true, Ordering::Release);
        let moving = async {
            let resume = changes.recv().await.unwrap();
            let team = json!({ "metadata": { "team": "west" } });
            let mut moving = pin!(operator.send(Method::PATCH, &thread, team));
            let early = timeout(WAIT, moving.as_mut()).await;
            assert!(early.is_err(), "{request}: the thread was moved during the request");
            resume.send(()).unwrap();
            moving.await.0
        };
        let ((status, answer), moved) = tokio::join!(ada.post(&path, body), moving);
        assert_eq!((status, moved), (200, 200), "{request}: {answer}");
        assert_eq!(ada.status(&thread).await, 404, "{request}: the thread is hidden");
    }
}
