//! Gates at which tasks wait until a test lets them continue.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use tokio::sync::oneshot;

/// Number of times that the tasks of a single-threaded runtime are polled until all of them wait.
const POLLS: usize = 16;

/// The gates of a graph, as dependencies of its nodes. Clones share the gates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(Arc<Mutex<GateData>>);

#[derive(Debug, Default)]
struct GateData {
    waiting: BTreeMap<String, oneshot::Sender<()>>,
    /// Tasks that have passed their gate, in order.
    passed: Vec<String>,
}

impl Gates {
    /// Waits until the gate of the task is opened.
    pub(crate) async fn pass(&self, task: String) {
        let (open, opened) = oneshot::channel();
        self.lock().waiting.insert(task, open);
        // The sender is dropped only if the run is dropped.
        let _ = opened.await;
    }

    /// Runs a future, and opens the gate of a waiting task whenever all tasks wait. `choose` returns the index of the
    /// task among the names of the waiting ones, or `None` to abort the future.
    pub(crate) async fn drive<T>(
        &self,
        run: impl Future<Output = T>,
        mut choose: impl FnMut(&[String]) -> Option<usize>,
    ) -> Option<T> {
        let mut run = pin!(run);
        loop {
            for _ in 0..POLLS {
                if let Poll::Ready(result) =
                    std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await
                {
                    self.lock().waiting.clear();
                    return Some(result);
                }
                tokio::task::yield_now().await;
            }
            let waiting: Vec<_> = self.lock().waiting.keys().cloned().collect();
            let Some(index) = choose(&waiting) else {
                self.lock().waiting.clear();
                return None;
            };
            let task =
                waiting.get(index).expect("a run that does not end has a waiting task").clone();
            let gate = {
                let mut gates = self.lock();
                gates.passed.push(task.clone());
                gates.waiting.remove(&task)
            };
            gate.map(|it| it.send(()));
        }
    }

    /// Returns the tasks in the order in which they passed their gates.
    pub(crate) fn passed(&self) -> Vec<String> {
        self.lock().passed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, GateData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
