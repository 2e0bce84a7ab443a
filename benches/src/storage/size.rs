//! Measures the size of a SQLite file that contains one long thread.

use std::{fs, io, path::Path, sync::Arc};

use graph_store::{
    SqliteSaver,
    sqlite::{Sqlite, Synchronous},
};
use rusqlite::Connection;
use tokio::runtime::Handle;

use super::{chat, langgraph, workload::StorageLoad};
use crate::langgraph::LangGraph;

/// Size of the message that each step appends, in bytes.
pub(crate) const MESSAGE: usize = 1_024;

/// The measured numbers of steps, and whether LangGraph is also measured at each. LangGraph stores the whole list at
/// every step, so its file would be too large for the longer threads.
const STEPS: [(usize, bool); 4] = [(100, true), (1_000, true), (10_000, false), (100_000, false)];

/// The file sizes for one number of steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) steps: usize,
    /// Size of our file in bytes.
    pub(crate) ours: u64,
    /// Size of LangGraph's file in bytes, if it was measured.
    pub(crate) langgraph: Option<u64>,
}

/// Measures the sizes for all numbers of steps.
pub(crate) fn rows(
    dir: &Path,
    runtime: &Handle,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Vec<Row>> {
    STEPS
        .map(|(steps, langgraph_feasible)| {
            eprintln!("sqlite-bytes {steps} …");
            let load = StorageLoad { threads: 1, steps, message: MESSAGE };
            let ours = ours(&dir.join(format!("size-{steps}.db")), load, runtime)?;
            let langgraph =
                if langgraph_feasible { langgraph_size(dir, load, langgraph) } else { None };
            Ok(Row { steps, ours, langgraph })
        })
        .into_iter()
        .collect()
}

fn ours(path: &Path, load: StorageLoad, runtime: &Handle) -> io::Result<u64> {
    // Use the faster sync mode, because the sync mode does not affect the contents of the file.
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let saver = SqliteSaver::new(&settings.open(path).map_err(io::Error::other)?);
    runtime.block_on(chat::run(&chat::graph(Arc::new(saver)), "thread", load));
    // Copy the write-ahead log into the file. If the log cannot be emptied because it is still in use, its size counts
    // too.
    let connection = Connection::open(path).map_err(io::Error::other)?;
    let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint.map_err(io::Error::other)?;
    let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |it| it.len());
    Ok(fs::metadata(path)?.len() + log)
}

fn langgraph_size(dir: &Path, load: StorageLoad, langgraph: &mut Option<LangGraph>) -> Option<u64> {
    let child = langgraph.as_mut()?;
    let path = dir.join(format!("their-size-{}.db", load.steps));
    let size = langgraph::size(child, path.to_str()?, load);
    // Delete the file immediately, because it takes half a gigabyte after a thousand steps.
    let _ = fs::remove_file(&path);
    match size {
        Ok(size) => Some(size),
        Err(error) => {
            eprintln!("LangGraph failed: {error}");
            *langgraph = None;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;

    use super::*;
    use crate::storage::disk;

    #[test]
    fn file_grows_at_least_by_the_size_of_the_messages() {
        let (dir, runtime) = (disk::scratch_dir().unwrap(), Runtime::new().unwrap());
        let size_of = |steps| {
            let load = StorageLoad { threads: 1, steps, message: MESSAGE };
            ours(&dir.path().join(format!("{steps}.db")), load, runtime.handle()).unwrap()
        };
        assert!(size_of(50) - size_of(10) > (40 * MESSAGE) as u64);
    }
}
