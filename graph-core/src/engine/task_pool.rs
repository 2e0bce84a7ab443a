//! Runs the tasks of a step concurrently.

use std::task::Poll;

use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    engine::execute::{Execution, Job, run_task},
    error::RunError,
};

/// Maximum number of graph tasks that share one tokio task.
///
/// The tasks in a batch still run concurrently. Sharing a tokio task amortises the cost of spawning, which dominates
/// for small graph tasks.
const MAX_BATCH: usize = 32;

/// The running tasks of a step. Dropping the pool aborts them.
pub(super) enum TaskPool {
    /// Runs a single task within the caller's future, without the cost of spawning it.
    Inline(Option<(usize, Job)>),
    Spawning(Spawner),
}

impl TaskPool {
    /// Creates a pool for a single task.
    pub(super) fn inline() -> Self {
        Self::Inline(None)
    }

    /// Creates a pool for `tasks` tasks, of which at most `max_running` run concurrently.
    pub(super) fn spawning(tasks: usize, max_running: usize) -> Self {
        Self::Spawning(Spawner::new(tasks, max_running))
    }

    pub(super) fn has_capacity(&self) -> bool {
        match self {
            Self::Inline(job) => job.is_none(),
            Self::Spawning(spawner) => spawner.running < spawner.max_running,
        }
    }

    /// Starts a task. The pool must have capacity.
    pub(super) fn start(&mut self, index: usize, job: Job) {
        match self {
            Self::Inline(only) => *only = Some((index, job)),
            Self::Spawning(spawner) => spawner.start(index, job),
        }
    }

    /// Returns whether tasks are running but none of them has ended yet.
    pub(super) fn must_wait(&self) -> bool {
        match self {
            Self::Inline(_) => false,
            Self::Spawning(spawner) => spawner.running > 0 && spawner.ended.is_empty(),
        }
    }

    /// Returns the next task that ended, in completion order, or `None` when all have ended.
    pub(super) async fn next(&mut self) -> Result<Option<(usize, Execution)>, RunError> {
        match self {
            Self::Inline(job) => match job.take() {
                Some((index, job)) => Ok(Some((index, run_task(job).await))),
                None => Ok(None),
            },
            Self::Spawning(spawner) => spawner.next().await,
        }
    }
}

/// Spawns tasks in batches.
pub(super) struct Spawner {
    /// The running batches. Dropping this set aborts them.
    batches: JoinSet<()>,
    /// The batch being filled.
    batch: Vec<(usize, Job)>,
    batch_size: usize,
    max_running: usize,
    running: usize,
    sender: mpsc::UnboundedSender<(usize, Execution)>,
    ended: mpsc::UnboundedReceiver<(usize, Execution)>,
}

impl Spawner {
    fn new(tasks: usize, max_running: usize) -> Self {
        let (sender, ended) = mpsc::unbounded_channel();
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        // The batch size is small enough to give every worker thread several batches.
        let batch_size =
            if max_running < tasks { 1 } else { (tasks / (workers * 8)).clamp(1, MAX_BATCH) };
        Self {
            batches: JoinSet::new(),
            batch: Vec::with_capacity(batch_size),
            batch_size,
            max_running,
            running: 0,
            sender,
            ended,
        }
    }

    /// Adds a task to the current batch and starts the batch once it is full.
    fn start(&mut self, index: usize, job: Job) {
        self.running += 1;
        self.batch.push((index, job));
        if self.batch.len() == self.batch_size {
            self.spawn_batch();
        }
    }

    async fn next(&mut self) -> Result<Option<(usize, Execution)>, RunError> {
        self.spawn_batch();
        if self.running == 0 {
            return Ok(None);
        }
        loop {
            tokio::select! {
                biased;
                ended = self.ended.recv() => {
                    self.running -= 1;
                    return Ok(ended);
                }
                Some(batch) = self.batches.join_next() => match batch {
                    Ok(()) => {}
                    // `run_task` catches panics of nodes, so this panic is a bug in the engine.
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => return Err(RunError::Cancelled),
                },
            }
        }
    }

    fn spawn_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(self.batch_size));
        self.batches.spawn(run_batch(batch, self.sender.clone()));
    }
}

/// Runs a batch of tasks concurrently and sends the result of each one when it ends.
async fn run_batch(batch: Vec<(usize, Job)>, sender: mpsc::UnboundedSender<(usize, Execution)>) {
    let start = |(index, job)| Some((index, Box::pin(run_task(job))));
    let mut tasks: Vec<_> = batch.into_iter().map(start).collect();
    std::future::poll_fn(move |cx| {
        for slot in &mut tasks {
            let Some((index, task)) = slot else { continue };
            if let Poll::Ready(execution) = task.as_mut().poll(cx) {
                let index = *index;
                // The task is dropped before its result is sent, because after the last result the caller may close
                // resources that the task used.
                *slot = None;
                // Sending fails only if the run has ended and no longer needs the result.
                let _ = sender.send((index, execution));
            }
        }
        tasks.retain(Option::is_some);
        if tasks.is_empty() {
            return Poll::Ready(());
        }
        // All tasks in a batch share one tokio budget per poll. Rotating the list lets a different task use the budget
        // first each time.
        tasks.rotate_left(1);
        Poll::Pending
    })
    .await;
}
