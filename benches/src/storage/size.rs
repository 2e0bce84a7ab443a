//! How large a SQLite file becomes with one long thread in it.

use std::{fs, io, path::Path, sync::Arc};

use graph_store::{
    SqliteSaver,
    sqlite::{Sqlite, Synchronous},
};
use rusqlite::Connection;
use tokio::runtime::Handle;

use super::{StorageLoad, chat, langgraph};
use crate::langgraph::LangGraph;

/// The bytes a step appends.
pub const MESSAGE: usize = 1_024;

/// The threads' lengths, and whether LangGraph can bear one: it stores the whole list at every step.
const STEPS: [(usize, bool); 4] = [(100, true), (1_000, true), (10_000, false), (100_000, false)];

/// One thread.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// How many steps it took.
    pub steps: usize,
    /// The bytes of our file.
    pub ours: u64,
    /// Those of LangGraph's.
    pub langgraph: Option<u64>,
}

/// Measures all lengths.
pub fn rows(
    dir: &Path,
    runtime: &Handle,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Vec<Row>> {
    STEPS
        .map(|(steps, langgraph_feasible)| {
            eprintln!("sqlite-bytes {steps} …");
            let load = StorageLoad { threads: 1, steps, message: MESSAGE };
            let ours = ours(&dir.join(format!("size-{steps}.db")), load, runtime)?;
            let langgraph = if langgraph_feasible { theirs(dir, load, langgraph) } else { None };
            Ok(Row { steps, ours, langgraph })
        })
        .into_iter()
        .collect()
}

fn ours(path: &Path, load: StorageLoad, runtime: &Handle) -> io::Result<u64> {
    // How often it syncs does not change what is in the file.
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let saver = SqliteSaver::new(&settings.open(path).map_err(io::Error::other)?);
    runtime.block_on(chat::run(&chat::graph(Arc::new(saver)), "thread", load));
    // The log is folded into the file, and counted all the same should somebody still hold it.
    let connection = Connection::open(path).map_err(io::Error::other)?;
    let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint.map_err(io::Error::other)?;
    let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |it| it.len());
    Ok(fs::metadata(path)?.len() + log)
}

fn theirs(dir: &Path, load: StorageLoad, langgraph: &mut Option<LangGraph>) -> Option<u64> {
    let child = langgraph.as_mut()?;
    child.savers()?;
    let path = dir.join(format!("their-size-{}.db", load.steps));
    let size = langgraph::size(child, path.to_str()?, load);
    // Half a gigabyte at a thousand steps.
    let _ = fs::remove_file(&path);
    match size {
        Ok(size) => Some(size),
        Err(error) => {
            eprintln!("LangGraph gives no answer: {error}");
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
    fn all_messages_are_in_the_file() {
        let (dir, runtime) = (disk::scratch_dir().unwrap(), Runtime::new().unwrap());
        let weigh = |steps| {
            let load = StorageLoad { threads: 1, steps, message: MESSAGE };
            ours(&dir.path().join(format!("{steps}.db")), load, runtime.handle()).unwrap()
        };
        assert!(weigh(50) - weigh(10) > (40 * MESSAGE) as u64);
    }
}
