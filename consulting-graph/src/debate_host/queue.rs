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
    has_failed: bool,
}

impl DebateQueue {
    /// Creates an empty queue with this maximum number of concurrent debates.
    pub fn new(concurrency: usize) -> Self {
        Self { concurrency: concurrency.max(1), state: watch::Sender::default() }
    }

    /// Sets the moves whose debates are to be run.
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
            it.has_failed || it.unfinished.range(..move_id).count() < self.concurrency
        };
        let has_failed = match state.wait_for(is_next).await {
            Ok(state) => state.has_failed,
            Err(_) => true,
        };
        if has_failed {
            return Err(aborted());
        }
        let mut turn = Turn { queue: self, move_id, is_done: false };
        let result = tokio::select! {
            biased;
            result = debate => result,
            _ = state.wait_for(|it| it.has_failed) => Err(aborted()),
        };
        turn.is_done = result.is_ok();
        result
    }
}

fn aborted() -> NodeError {
    NodeError::terminal("the debate was aborted, because another debate failed the run")
}

/// The turn of a debate. Ends when it is dropped, also if the debate panics.
struct Turn<'a> {
    queue: &'a DebateQueue,
    move_id: MoveId,
    is_done: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queue.state.send_modify(|it| match self.is_done {
            true => drop(it.unfinished.remove(&self.move_id)),
            false => it.has_failed = true,
        });
    }
}
