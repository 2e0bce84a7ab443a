//! Benchmarks of stored threads. The same workload runs on our savers and on LangGraph's. The cost of our savers is
//! also compared with the cost of the fsyncs alone.
//!
//! With both kinds of savers, every step is on disk before the next one starts.

pub(crate) mod chat;
mod counting_hook;
mod database;
mod disk;
mod floor;
mod insert;
mod langgraph;
mod size;
pub mod table;
mod timed;
pub mod workload;

use std::{io, path::Path, time::Duration};

use tokio::runtime::Handle;

pub(crate) use self::disk::written_bytes;
pub use self::disk::{describe as describe_disk, scratch_dir};
use self::{
    database::Databases,
    floor::{CommitProfile, FileSpace, Floor},
    workload::StoredWorkload,
};
use crate::{data, langgraph::LangGraph};

/// Measures the simplest durable step: overwriting some bytes of a file and syncing them.
pub fn simplest_fsync(dir: &Path) -> io::Result<Duration> {
    let commits = CommitProfile { count: 200, bytes: data::MESSAGE_SIZE };
    let time = Floor::new(&dir.join("fsync"), commits, FileSpace::Preallocated)?.run()?;
    Ok(time / commits.count as u32)
}

/// The results of all measured workloads.
#[derive(Debug, Default)]
pub struct Report {
    notes: Vec<String>,
    timed: Vec<timed::Row>,
    sizes: Vec<size::Row>,
}

/// Measures the given workloads and returns their results.
pub fn measure(
    workloads: &[StoredWorkload],
    rounds: usize,
    runtime: &Handle,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Report> {
    let scratch_dir = disk::scratch_dir()?;
    let mut report = Report {
        notes: vec![format!("the target directory {}", disk::describe(scratch_dir.path()))],
        ..Report::default()
    };
    report.notes.extend(langgraph.as_ref().map(langgraph::describe));
    let mut databases = Databases::new(scratch_dir.path(), runtime);
    for &workload in workloads {
        for load in workload.loads() {
            eprintln!("{} {} …", workload.name(), load.message);
            report.timed.push(timed::row(workload, load, rounds, &mut databases, langgraph)?);
        }
        if workload == StoredWorkload::SqliteBytes {
            report.sizes = size::rows(scratch_dir.path(), runtime, langgraph)?;
        }
    }
    report.notes.extend(databases.describe_server());
    Ok(report)
}
