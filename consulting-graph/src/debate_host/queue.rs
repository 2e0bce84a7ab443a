//! Order of the debates.

use std::{collections::BTreeSet, future::Future};

use graph_core::NodeError;
use tokio::sync::watch;

use crate::moves::MoveId;

/// Starts the debates in the order of their moves and limits how many run concurrently. If a debate fails the run, no
/// further debate starts, and the running ones are aborted.
#[derive(Debug)]
pub struct DebateQueue {
    concurrency: usize,
    state: watch::Sender<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    unfinished: BTreeSet<MoveId>,
    /// The first debate that failed the run.
    failure: Option<DebateFailure>,
}

#[derive(Clone, Debug)]
struct DebateFailure {
    move_id: MoveId,
    cause: String,
}

impl DebateQueue {
    /// Creates an empty queue with this maximum number of concurrent debates.
    pub fn new(concurrency: usize) -> Self {
        Self { concurrency: concurrency.max(1), state: watch::Sender::default() }
    }

    /// Returns the maximum number of concurrent debates.
    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Sets the moves to debate.
    pub(crate) fn set_unfinished(&self, moves: impl IntoIterator<Item = MoveId>) {
        self.state.send_modify(|it| it.unfinished = moves.into_iter().collect());
    }

    /// Runs a debate when it is its turn.
    pub(crate) async fn run<T>(
        &self,
        move_id: MoveId,
        debate: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        let mut state = self.state.subscribe();
        let is_next = |it: &QueueState| {
            it.failure.is_some() || it.unfinished.range(..move_id).count() < self.concurrency
        };
        // The channel is open as long as this queue exists.
        let failure = state.wait_for(is_next).await.ok().and_then(|it| it.failure.clone());
        if let Some(failure) = failure {
            return Err(aborted(&failure));
        }
        let cause = "it panicked or was cancelled".to_owned();
        let mut turn = Turn { queue: self, move_id, failure: Some(cause) };
        let result = tokio::select! {
            biased;
            result = debate => result,
            failure = first_failure(&mut state) => Err(aborted(&failure)),
        };
        turn.failure = result.as_ref().err().map(ToString::to_string);
        result
    }
}

/// Waits until a debate has failed the run.
async fn first_failure(state: &mut watch::Receiver<QueueState>) -> DebateFailure {
    let failed = state.wait_for(|it| it.failure.is_some()).await;
    let failure = failed.ok().and_then(|it| it.failure.clone());
    match failure {
        Some(failure) => failure,
        None => std::future::pending().await,
    }
}

fn aborted(failure: &DebateFailure) -> NodeError {
    let DebateFailure { move_id, cause } = failure;
    NodeError::terminal(format!(
        "the debate was aborted, because the debate about {move_id} failed the run: {cause}"
    ))
}

/// A running debate. Dropping it lets the next debate start, even if this debate panicked.
struct Turn<'a> {
    queue: &'a DebateQueue,
    move_id: MoveId,
    /// Why the debate failed the run. `None` if it has finished.
    failure: Option<String>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (move_id, failure) = (self.move_id, self.failure.take());
        self.queue.state.send_modify(|it| match failure {
            None => {
                it.unfinished.remove(&move_id);
            }
            Some(cause) => {
                it.failure.get_or_insert(DebateFailure { move_id, cause });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use graph_core::NodeError;
    use tokio::{
        sync::{mpsc, oneshot},
        task::JoinHandle,
    };

    use super::DebateQueue;
    use crate::moves::MoveId;

    type Outcome = Result<(), NodeError>;

    /// A debate that ends when the test sends its outcome, and panics if the test drops the sender.
    struct Debate {
        end: oneshot::Sender<Outcome>,
        task: JoinHandle<Outcome>,
    }

    /// Runs debates about moves 1 to `moves`. Returns them and the moves whose debates have started, in order.
    fn start(concurrency: usize, moves: u16) -> (Vec<Debate>, mpsc::UnboundedReceiver<u16>) {
        let queue = Arc::new(DebateQueue::new(concurrency));
        queue.set_unfinished((1..=moves).map(MoveId));
        let (starts, started) = mpsc::unbounded_channel();
        let debate = |number| {
            let (queue, starts, (end, ended)) = (queue.clone(), starts.clone(), oneshot::channel());
            let debate = async move {
                starts.send(number).unwrap();
                ended.await.expect("the debate panics")
            };
            let task = tokio::spawn(async move { queue.run(MoveId(number), debate).await });
            Debate { end, task }
        };
        // The order in which the tasks are spawned does not matter.
        let mut debates: Vec<Debate> = (1..=moves).rev().map(debate).collect();
        debates.reverse();
        (debates, started)
    }

    async fn error(debate: Debate) -> String {
        debate.task.await.unwrap().unwrap_err().to_string()
    }

    #[tokio::test]
    async fn debates_start_in_order_within_the_limit() {
        let (debates, mut started) = start(2, 4);
        let mut first = [started.recv().await.unwrap(), started.recv().await.unwrap()];
        first.sort_unstable();
        assert_eq!(first, [1, 2]);
        let mut debates = debates.into_iter();
        for next in [Some(3), Some(4), None, None] {
            assert!(started.try_recv().is_err(), "more than two debates run");
            let Debate { end, task } = debates.next().unwrap();
            end.send(Ok(())).unwrap();
            task.await.unwrap().unwrap();
            if next.is_some() {
                assert_eq!(started.recv().await, next);
            }
        }
    }

    #[tokio::test]
    async fn failure_aborts_running_debates_and_starts_no_more() {
        let (debates, mut started) = start(2, 3);
        let _ = (started.recv().await, started.recv().await);
        let [first, second, third] = <[Debate; 3]>::try_from(debates).ok().unwrap();
        second.end.send(Err(NodeError::terminal("the disk is full"))).unwrap();
        assert_eq!(second.task.await.unwrap().unwrap_err().to_string(), "the disk is full");
        let expected =
            "the debate was aborted, because the debate about m2 failed the run: the disk is full";
        assert_eq!(error(first).await, expected);
        assert_eq!(error(third).await, expected);
        assert_eq!(started.recv().await, None, "the debate about m3 started");
    }

    #[tokio::test]
    async fn panic_aborts_the_other_debates() {
        let (debates, mut started) = start(1, 2);
        assert_eq!(started.recv().await, Some(1));
        let [first, second] = <[Debate; 2]>::try_from(debates).ok().unwrap();
        drop(first.end);
        assert!(first.task.await.unwrap_err().is_panic());
        assert!(error(second).await.contains("m1 failed the run: it panicked"));
    }
}
