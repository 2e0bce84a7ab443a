//! Team: the tasks of a step that run at once.

use std::task::Poll;

use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

use super::execute::{Job, Report, run_task};

/// How many tasks of a large step share one task of the runtime, at the most.
///
/// They still run at once; it is the runtime's bookkeeping that they share, which for small tasks is most of what
/// they cost.
const CREW: usize = 32;

/// Tasks that run at once. Dropping it ends them all.
pub(super) struct Team {
    /// Owns the crews, so that they end with the step.
    crews: JoinSet<()>,
    /// The crew that is being put together.
    crew: Vec<(usize, Job)>,
    crew_size: usize,
    room: usize,
    running: usize,
    reports: mpsc::UnboundedSender<(usize, Report)>,
    finished: mpsc::UnboundedReceiver<(usize, Report)>,
}

impl Team {
    /// A team for so many tasks, of which at most `room` run at once.
    pub(super) fn new(tasks: usize, room: usize) -> Self {
        let (reports, finished) = mpsc::unbounded_channel();
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        // Small enough that every worker has several crews to choose from.
        let crew_size = if room < tasks { 1 } else { (tasks / (workers * 8)).clamp(1, CREW) };
        Self {
            crews: JoinSet::new(),
            crew: Vec::with_capacity(crew_size),
            crew_size,
            room,
            running: 0,
            reports,
            finished,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.running < self.room
    }

    /// Starts a task, or puts it into the crew that starts soon.
    pub(super) fn start(&mut self, index: usize, job: Job) {
        self.running += 1;
        self.crew.push((index, job));
        if self.crew.len() == self.crew_size {
            self.send_off();
        }
    }

    /// Whether tasks run, and none of them is over yet.
    pub(super) fn has_to_wait(&self) -> bool {
        self.running > 0 && self.finished.is_empty()
    }

    /// The next task that is over, in the order in which they end; `None` when all are.
    pub(super) async fn next(&mut self) -> Option<Result<(usize, Report), JoinError>> {
        self.send_off();
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
                Some(crew) = self.crews.join_next() => {
                    if let Err(error) = crew {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    fn send_off(&mut self) {
        if self.crew.is_empty() {
            return;
        }
        let crew = std::mem::replace(&mut self.crew, Vec::with_capacity(self.crew_size));
        let reports = self.reports.clone();
        self.crews.spawn(run_crew(crew, reports));
    }
}

/// Runs the tasks of one crew at once, each reporting when it is over.
async fn run_crew(crew: Vec<(usize, Job)>, reports: mpsc::UnboundedSender<(usize, Report)>) {
    let mut members: Vec<_> =
        crew.into_iter().map(|(index, job)| (index, Box::pin(run_task(job)))).collect();
    std::future::poll_fn(move |cx| {
        let mut next = 0;
        while let Some((index, task)) = members.get_mut(next) {
            match task.as_mut().poll(cx) {
                Poll::Pending => next += 1,
                Poll::Ready(report) => {
                    let index = *index;
                    // Gone before it is told: whoever hears of the last one may close what the task had in hand.
                    drop(members.remove(next));
                    // Nobody waits for it once the run is over.
                    let _ = reports.send((index, report));
                }
            }
        }
        if members.is_empty() {
            return Poll::Ready(());
        }
        // The members share the runtime's budget for one poll, so each is the first to draw on it in turn.
        members.rotate_left(1);
        Poll::Pending
    })
    .await;
}
