//! Runs the tasks of a step concurrently.

use std::task::Poll;

use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

use crate::engine::execute::{Job, TaskReport, run_task};

/// Maximum number of graph tasks that share one tokio task.
///
/// The tasks in a batch still run concurrently. Sharing a tokio task amortises the cost of spawning, which dominates
/// for small graph tasks.
const MAX_BATCH: usize = 32;

/// The running tasks of a step. Dropping the pool aborts them.
pub(super) struct TaskPool {
    /// The running batches. Dropping this set aborts them.
    batches: JoinSet<()>,
    /// The batch being filled.
    batch: Vec<(usize, Job)>,
    batch_size: usize,
    max_running: usize,
    running: usize,
    reports: mpsc::UnboundedSender<(usize, TaskReport)>,
    finished: mpsc::UnboundedReceiver<(usize, TaskReport)>,
}

impl TaskPool {
    /// Creates a pool for `tasks` tasks, of which at most `max_running` run concurrently.
    pub(super) fn new(tasks: usize, max_running: usize) -> Self {
        let (reports, finished) = mpsc::unbounded_channel();
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
            reports,
            finished,
        }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.running < self.max_running
    }

    /// Adds a task to the current batch and starts the batch once it is full.
    pub(super) fn start(&mut self, index: usize, job: Job) {
        self.running += 1;
        self.batch.push((index, job));
        if self.batch.len() == self.batch_size {
            self.spawn_batch();
        }
    }

    /// Returns whether tasks are running but no report has arrived.
    pub(super) fn must_wait(&self) -> bool {
        self.running > 0 && self.finished.is_empty()
    }

    /// Returns the next finished task, in completion order, or `None` when all have finished.
    pub(super) async fn next(&mut self) -> Option<Result<(usize, TaskReport), JoinError>> {
        self.spawn_batch();
        if self.running == 0 {
            return None;
        }
        loop {
            tokio::select! {
                biased;
                report = self.finished.recv() => {
                    self.running -= 1;
                    return report.map(Ok);
                }
                Some(batch) = self.batches.join_next() => {
                    if let Err(error) = batch {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    fn spawn_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(self.batch_size));
        let reports = self.reports.clone();
        self.batches.spawn(run_batch(batch, reports));
    }
}

/// Runs a batch of tasks concurrently and reports each one when it finishes.
async fn run_batch(batch: Vec<(usize, Job)>, reports: mpsc::UnboundedSender<(usize, TaskReport)>) {
    let mut tasks: Vec<_> =
        batch.into_iter().map(|(index, job)| (index, Box::pin(run_task(job)))).collect();
    std::future::poll_fn(move |cx| {
        let mut next = 0;
        while let Some((index, task)) = tasks.get_mut(next) {
            match task.as_mut().poll(cx) {
                Poll::Pending => next += 1,
                Poll::Ready(report) => {
                    let index = *index;
                    // The task is dropped before its result is reported, because after the last report the caller may
                    // close resources that the task used.
                    drop(tasks.remove(next));
                    // Sending fails only if the run has ended and no longer needs the report.
                    let _ = reports.send((index, report));
                }
            }
        }
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
