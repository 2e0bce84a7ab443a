//! The status of a cluster as text for a terminal.

use std::fmt;

use crate::store::{ClusterStatus, WorkerStatus};

impl fmt::Display for ClusterStatus {
    /// Writes a line for each worker, each of its runs, each status of runs and each version that no worker serves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.workers.is_empty() {
            writeln!(f, "no worker has reported within the last hour")?;
        }
        for worker in &self.workers {
            write_worker(f, worker)?;
        }
        let count = |(status, runs): (&String, &i64)| format!("{runs} {status}");
        let counts: Vec<String> = self.runs.iter().map(count).collect();
        let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        writeln!(f, "runs: {counts}")?;
        for (graph, runs) in &self.unserved {
            writeln!(f, "no worker serves {graph}: {runs} active runs wait")?;
        }
        Ok(())
    }
}

fn write_worker(f: &mut fmt::Formatter<'_>, worker: &WorkerStatus) -> fmt::Result {
    let state = if worker.draining { "draining" } else { "working" };
    let (id, graphs) = (&worker.id, worker.graphs.join(", "));
    let (tasks, seen) = (worker.tasks, format_seconds(worker.seen_ms_ago));
    write!(f, "{id}: {state}, seen {seen} ago, {tasks} tasks, graphs: {graphs}")?;
    match worker.pools.is_empty() {
        true => writeln!(f)?,
        false => writeln!(f, ", pools: {}", worker.pools.join(", "))?,
    }
    for run in &worker.runs {
        let (graph, thread, time) = (&run.graph, &run.thread, format_seconds(run.running_ms));
        writeln!(
            f,
            "    run {} of {graph} on thread {thread}, for {time}, claim {}",
            run.run, run.claims
        )?;
    }
    Ok(())
}

/// Formats a duration, given in milliseconds, in seconds.
pub(crate) fn format_seconds(millis: i64) -> String {
    format!("{:.1} s", millis as f64 / 1000.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::store::WorkerRun;

    /// Returns the status of a cluster with one worker, which executes one run.
    pub(crate) fn sample_status() -> ClusterStatus {
        let run = WorkerRun {
            run: "r1".into(),
            graph: "essay".into(),
            thread: "t1".into(),
            claims: 2,
            running_ms: 61_200,
        };
        let worker = WorkerStatus {
            id: "one".into(),
            graphs: vec!["essay@2".into()],
            pools: vec!["gpu".into()],
            tasks: 3,
            draining: false,
            seen_ms_ago: 900,
            runs: vec![run],
        };
        ClusterStatus {
            workers: vec![worker],
            runs: [("done".to_owned(), 7), ("running".to_owned(), 1)].into(),
            unserved: [("essay@1".to_owned(), 4)].into(),
        }
    }

    #[test]
    fn status_lists_workers_runs_and_unserved_versions() {
        assert_eq!(
            sample_status().to_string(),
            "one: working, seen 0.9 s ago, 3 tasks, graphs: essay@2, pools: gpu\n    \
             run r1 of essay on thread t1, for 61.2 s, claim 2\n\
             runs: 7 done, 1 running\n\
             no worker serves essay@1: 4 active runs wait\n"
        );
    }
}
